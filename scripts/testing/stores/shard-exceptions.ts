import path from 'node:path';
import { MAILBOXES } from '#infra/mongo/mailbox/commands.ts';
import type { Fault } from './shard-rule.ts';

const MONGO = 'shared/infra/mongo';

/**
 * Statements of the product that go to every shard of a sharded cluster, by their file below `MONGO`. The comment above them states why they
 * cannot name the shard key. The form is `collection command`, with `{filter}` if the file also sends statements that have to name the key.
 * `mailboxes` are all three. Every other statement on a sharded collection names the shard key.
 */
export const SHARD_EXCEPTIONS: Readonly<Record<string, readonly string[]>> = {
  // Teachers and services name an attempt by its id, and the summary counts the attempts of all students.
  'attempt/attempts': ['attempts find {_id}', 'attempts aggregate {status $in}'],
  // A release binds attempts of an exam, of any student.
  'attempt/release': ['attempts find {_id $gt, exam.resultsReleasedAt, examId}'],
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
    'attempt_link_seats find',
    'auth_known_pairs find',
    'ai_generations find',
    'ai_usage_events find',
    'notifications find',
  ],
  'person/find': ['mailboxes', 'attempt_link_seats', 'auth_known_pairs', 'ai_generations', 'ai_usage_events']
    .concat('notifications', 'notification_delivery_attempts')
    .flatMap((collection) => [`${collection} find`, `${collection} aggregate`]),
  // Old rows of all users end, and the rounds of an expired job are found by the job.
  'person/retention': ['attempts find', 'notifications find', 'commands delete {subject}'],
  // The sweep finds erasures of any person.
  'person/second-pass': ['erased_persons find'],
  // A step changes the rows of every shard.
  'schema/migrate': ['mailboxes update {lockedUntil $ne, movedAt $exists}'],
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
