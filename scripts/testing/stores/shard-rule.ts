import path from 'node:path';
import type { Document } from 'mongodb';
import { MAILBOXES } from '#infra/mongo/mailbox/commands.ts';
import type { Placement } from '#infra/mongo/schema/shard-keys.ts';

type Sharded = Extract<Placement, { shardKey: readonly string[] }>;

/** One statement of a command that a sharded cluster would refuse, or send to more than one shard at a time or in turn. */
interface Fault {
  collection: string;
  command: string;
  /** Fields and operators of the filter without values, so that equal statements have equal text. */
  shape: string;
  /** A statement that goes to every shard may have an exception. */
  fault:
    | 'goes to every shard'
    | 'is a write that MongoDB 7 refuses'
    | 'is part of an ordered batch over several shards';
}

/**
 * Returns the faults of a command, and none for commands without a filter, such as those of a transaction. A statement has to name the
 * shard key by equality or by a list of values. MongoDB 7 refuses a write of one document that does not name one shard, and an update of
 * several that sets the shard key. A router waits for each statement of an ordered batch before it sends the next to another shard.
 */
export function faultsOf(
  command: string,
  sent: Document,
  placements: Readonly<Record<string, Placement | undefined>>,
): Fault[] {
  const collection = sent[command];
  const placement = typeof collection === 'string' ? placements[collection] : undefined;
  if (placement === undefined || !('shardKey' in placement)) return [];
  const filters = FILTERS[command]?.(sent) ?? [];
  const isInTurn = isSentInTurn(sent, filters, placement);
  return filters.flatMap((filter, at) => {
    const keys = keysOf(filter, placement);
    const isRefused = writesOne(command, sent, at)
      ? keys?.length !== 1
      : setsShardKey(sent.updates?.[at]?.u, placement);
    const statement = { collection, command, shape: shapeOf(filter) };
    if (isRefused) return { ...statement, fault: 'is a write that MongoDB 7 refuses' as const };
    if (isInTurn) return { ...statement, fault: 'is part of an ordered batch over several shards' as const };
    return keys === null ? { ...statement, fault: 'goes to every shard' as const } : [];
  });
}

/** Returns whether a router sends the statements of this batch one after the other: they are ordered and have different shard keys. */
function isSentInTurn({ ordered }: Document, filters: readonly Document[], placement: Sharded): boolean {
  if (ordered !== true || filters.length < 2) return false;
  return new Set(filters.map((filter) => keysOf(filter, placement)?.join())).size > 1;
}

/** Returns whether a statement changes one of the documents that match. */
function writesOne(command: string, sent: Document, at: number): boolean {
  if (command === 'update') return sent.updates[at].multi !== true;
  if (command === 'delete') return sent.deletes[at].limit === 1;
  return command === 'findAndModify';
}

/** Returns whether an update, which may be a pipeline, writes a field of the shard key. */
function setsShardKey(update: Document | readonly Document[] | undefined, { shardKey }: Sharded): boolean {
  if (update === undefined) return false;
  const stages: readonly Document[] = Array.isArray(update) ? update : [update];
  const written = stages.flatMap((stage) => Object.values(stage)).flatMap(fieldsIn);
  return shardKey.some((key) => written.includes(key));
}

function fieldsIn(operand: unknown): string[] {
  if (typeof operand === 'string') return [operand];
  return Array.isArray(operand) ? operand : Object.keys(operand ?? {});
}

const ofQuery = ({ query }: Document): Document[] => [query ?? {}];

/** Returns the filter of each statement, by command. A row that is inserted is its own filter. */
const FILTERS: Readonly<Record<string, (sent: Document) => Document[]>> = {
  find: ({ filter }) => [filter ?? {}],
  findAndModify: ofQuery,
  count: ofQuery,
  distinct: ofQuery,
  aggregate: ({ pipeline }) => [pipeline?.[0]?.$match ?? {}],
  update: ({ updates }) => updates.map(({ q }: Document) => q),
  delete: ({ deletes }) => deletes.map(({ q }: Document) => q),
  insert: ({ documents }) => documents,
};

/** Returns the shard keys that the filter lists, as text; null if it does not list them. */
function keysOf(filter: Document, { shardKey }: Sharded): string[] | null {
  let keys = [''];
  for (const field of shardKey) {
    const values = valuesOf(filter, field);
    if (values === null) return null;
    keys = keys.flatMap((key) => values.map((value) => `${key}${JSON.stringify(value)}`));
  }
  return keys;
}

/** Returns the values that the filter lists for a field; null if it does not list them. */
function valuesOf(filter: Document, field: string): unknown[] | null {
  // The client leaves undefined fields out of what it sends.
  if (filter[field] !== undefined) return listed(filter[field]);
  for (const part of filter.$and ?? []) {
    const values = valuesOf(part, field);
    if (values !== null) return values;
  }
  return null;
}

function listed(condition: unknown): unknown[] | null {
  if (!isOperators(condition)) return condition instanceof RegExp ? null : [condition];
  if ('$eq' in condition) return [condition.$eq];
  return Array.isArray(condition.$in) ? condition.$in : null;
}

/** Returns true for `{ $gt: … }`, and false for a value, which may be a document or a date as well. */
function isOperators(condition: unknown): condition is Document {
  if (typeof condition !== 'object' || condition === null || Array.isArray(condition)) return false;
  return Object.keys(condition)[0]?.startsWith('$') === true;
}

function shapeOf(filter: Document): string {
  const sent = Object.entries(filter).filter(([, condition]) => condition !== undefined);
  const parts = sent.map(([field, condition]) => {
    if (Array.isArray(condition) && field.startsWith('$')) return `${field}(${condition.map(shapeOf).join('|')})`;
    return isOperators(condition) ? `${field} ${Object.keys(condition).join(' ')}` : field;
  });
  return parts.sort().join(', ');
}

const MONGO = 'shared/infra/mongo';

/**
 * Statements of the product that go to every shard of a sharded cluster, by their file below `MONGO`. The comment above them states why they
 * cannot name the shard key. The form is `collection command`, with `{filter}` if the file also sends statements that have to name the key.
 * `mailboxes` are all three. Every other statement on a sharded collection names the shard key.
 */
export const SHARD_EXCEPTIONS: Readonly<Record<string, readonly string[]>> = {
  // Teachers and services name an attempt by its id.
  'attempt/attempts': ['attempts find {_id}'],
  'attempt/refs': ['attempts find {_id}'],
  // The summary counts the attempts of all students, so every shard has to answer.
  'attempt/counts': ['attempts aggregate {status}'],
  // A release binds attempts of an exam, of any student.
  'attempt/release': ['attempts find {_id $gt, exam.resultsReleasedAt, examId}'],
  // An act on an exam walks the attempts of any student, and the exam of a teacher is found by one of them.
  'exam-room/examined': ['attempts find'],
  'exam-room/sitting': ['attempts find'],
  // A board, results and statistics are those of all students of an exam, and a list has the exams of a teacher.
  'exam-room/board': ['attempts find', 'attempts aggregate'],
  'exam-room/exams': ['attempts find', 'attempts aggregate', 'attempt_exams find'],
  'exam-room/results': ['attempts find'],
  'exam-room/regraded-attempts': ['attempts find'],
  'exam-room/papers-of-exam': ['attempts aggregate'],
  'exam-room/regrades': ['attempt_regrade_lines find'],
  // The sweep finds overdue attempts of any student.
  'attempt/submit': ['attempts find {deadlineAt $lte, status}'],
  // A pair is named by a digest of e-mail and address, and an e-mail has several.
  'auth/known-pairs': ['auth_known_pairs update {account, tries $gt}'],
  // An operator names an object or an exam by one id, and no shard key is known then.
  'auth/login-events': ['auth_security_events find'],
  'operations/attempt-lines': ['attempts find'],
  'operations/classifier-lines': ['ai_generations find'],
  'operations/exam-attempts': ['attempts find'],
  'operations/exam': ['attempts find', 'attempts aggregate', 'attempt_notices aggregate'],
  'operations/notification-lines': ['notifications find', 'notification_deliveries find'],
  'operations/reading': ['mailboxes find'],
  'operations/trace': ['auth_sessions find', 'notification_delivery_attempts find'],
  // A dead settlement names its generation by the id.
  'classifier/generation-epochs': ['ai_generations aggregate {_id $in, closed, state}'],
  // An operator names a settlement, or an erasure has replaced its key.
  'classifier/generations': ['ai_generations find {_id}'],
  // The sweep finds settlements of all generations.
  'classifier/unpaid-generations': ['commands find {createdAt $lte, nextRunAt $lte, queue, replays, status}'],
  // Commands of a queue are read whatever their keys are.
  'mailbox/dead-groups': ['mailboxes aggregate'],
  'mailbox/dead-letters': ['mailboxes find', 'mailboxes aggregate'],
  'mailbox/due': ['mailboxes find'],
  'mailbox/failing': ['mailboxes aggregate'],
  'mailbox/queue-depths': ['mailboxes find', 'mailboxes aggregate'],
  'mailbox/suspects': ['mailboxes find'],
  // An ADMIN lists the rows of all users, or the user of a notification is not known.
  'notification/delivery-attempts': [
    'notification_delivery_attempts find',
    'notification_delivery_attempts aggregate',
    'notifications find {_id}',
  ],
  'notification/inbox': ['notifications find', 'notifications aggregate'],
  'notification/summarize-support': [
    'notifications find',
    'notifications aggregate',
    'notification_delivery_attempts aggregate',
  ],
  // The rows of a fan-out belong to many users.
  'notification/fan-out': ['notifications find {fanOutId}'],
  'notification/stage-fan-out': ['notifications find', 'notifications update', 'notifications delete'],
  // The report names a notification whose user is not known.
  'notification/snapshots': ['notifications find {_id}'],
  // Bulk acts are listed newest first.
  'operations/bulk-acts': ['commands find {queue}'],
  // A check of the promises reads the newest rows, or those that wait, of every shard.
  'operations/invariants/attempts': ['attempts find', 'attempt_releases find'],
  'operations/invariants/classifier': ['ai_generations find', 'ai_generation_holds find'],
  'operations/invariants/commands': ['mailboxes find'],
  'operations/invariants/notifications': ['notifications find', 'notification_deliveries find'],
  // Rows about a person are found by several fields, and some are in the inboxes of others.
  'person/export': [
    'mailboxes find',
    'attempt_exam_acts find',
    'attempt_releases find',
    'attempt_link_seats find',
    'auth_known_pairs find',
    'ai_generations find',
    'ai_usage_events find',
    'notifications find',
  ],
  'person/find': [
    'mailboxes',
    'attempt_exam_acts',
    'attempt_releases',
    'attempt_link_seats',
    'auth_known_pairs',
    'ai_generations',
    'ai_usage_events',
  ]
    .concat('notifications', 'notification_delivery_attempts')
    .flatMap((collection) => [`${collection} find`, `${collection} aggregate`]),
  // Old rows of all users end, and the rounds of an expired job are found by the job.
  'person/retention': ['attempts find', 'notifications find', 'commands delete {subject}'],
  // The sweep finds erasures of any person.
  'person/erase': ['erased_persons find'],
  // A step changes the rows of every shard.
  'schema/migrate': ['mailboxes update {lockedUntil $ne, movedAt $exists}', 'attempts find'],
};

/** The only file that counts whole collections: `examhall migrate --shard` shows their sizes. */
const PLAN = `${MONGO}/schema/distribution.ts`;

export function isExcepted({ collection, command, shape, fault }: Fault, file: string): boolean {
  if (fault !== 'goes to every shard') return false;
  if (file === PLAN) return command === 'count';
  const names = MAILBOXES.some((mailbox) => mailbox === collection) ? [collection, 'mailboxes'] : [collection];
  const statements = SHARD_EXCEPTIONS[path.posix.relative(MONGO, file).replace(/\.ts$/, '')] ?? [];
  return names.some(
    (name) => statements.includes(`${name} ${command}`) || statements.includes(`${name} ${command} {${shape}}`),
  );
}
