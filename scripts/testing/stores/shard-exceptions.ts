import { MAILBOXES } from '#infra/mongo/mailbox/commands.ts';
import type { Fault } from './shard-rule.ts';

/** Statements of one file that may go to every shard. */
interface Exception {
  /** Why they cannot name the shard key. */
  readonly why: string;
  /** `collection command`, with `{filter}` if the file also sends statements that have to name the key. `mailboxes` are all three. */
  readonly statements: readonly string[];
}

const MONGO = 'shared/infra/mongo';
const BY_ADMIN = 'an ADMIN lists the rows of all users, or the user of a notification is not known';
const CHECKED = 'a check of the promises reads the newest rows, or those that wait, of every shard';
const BY_OPERATOR = 'an operator names an object or an exam by one id, and no shard key is known then';
const OF_QUEUES = 'commands of a queue are read whatever their keys are';
const OF_PERSON = 'rows about a person are found by several fields, and some are in the inboxes of others';

/**
 * Files of the product with statements that go to every shard of a sharded cluster. Every other statement on a sharded collection names
 * the shard key.
 */
export const SHARD_EXCEPTIONS: Readonly<Record<string, Exception>> = {
  [`${MONGO}/attempt/attempts.ts`]: {
    why: 'teachers and services name an attempt by its id, and the summary counts the attempts of all students',
    statements: ['attempts find {_id}', 'attempts aggregate {status $in}'],
  },
  [`${MONGO}/attempt/release.ts`]: {
    why: 'a release binds attempts of an exam, of any student',
    statements: ['attempts find {_id $gt, exam.resultsReleasedAt, examId}'],
  },
  [`${MONGO}/attempt/submit.ts`]: {
    why: 'the sweep finds overdue attempts of any student',
    statements: ['attempts find {deadlineAt $lte, status}'],
  },
  [`${MONGO}/auth/known-pairs.ts`]: {
    why: 'a pair is named by a digest of e-mail and address, and an e-mail has several',
    statements: ['auth_known_pairs update {account, tries $gt}'],
  },
  [`${MONGO}/auth/login-events.ts`]: { why: BY_OPERATOR, statements: ['auth_security_events find'] },
  [`${MONGO}/classifier/generation-epochs.ts`]: {
    why: 'a dead settlement names its generation by the id',
    statements: ['ai_generations aggregate {_id $in, closed, state}'],
  },
  [`${MONGO}/classifier/generations.ts`]: {
    why: 'an operator names a settlement, or an erasure has replaced its key',
    statements: ['ai_generations find {_id}'],
  },
  [`${MONGO}/classifier/unpaid-generations.ts`]: {
    why: 'the sweep finds settlements of all generations',
    statements: ['commands find {createdAt $lte, nextRunAt $lte, queue, replays, status}'],
  },
  [`${MONGO}/mailbox/dead-groups.ts`]: { why: OF_QUEUES, statements: ['mailboxes aggregate'] },
  [`${MONGO}/mailbox/dead-letters.ts`]: { why: OF_QUEUES, statements: ['mailboxes find', 'mailboxes aggregate'] },
  [`${MONGO}/mailbox/due.ts`]: { why: OF_QUEUES, statements: ['mailboxes find'] },
  [`${MONGO}/mailbox/failing.ts`]: { why: OF_QUEUES, statements: ['mailboxes aggregate'] },
  [`${MONGO}/mailbox/queue-depths.ts`]: { why: OF_QUEUES, statements: ['mailboxes find', 'mailboxes aggregate'] },
  [`${MONGO}/mailbox/suspects.ts`]: { why: OF_QUEUES, statements: ['mailboxes find'] },
  [`${MONGO}/notification/delivery-attempts.ts`]: {
    why: BY_ADMIN,
    statements: [
      'notification_delivery_attempts find',
      'notification_delivery_attempts aggregate',
      'notifications find {_id}',
    ],
  },
  [`${MONGO}/notification/fan-out.ts`]: {
    why: 'the rows of a fan-out belong to many users',
    statements: ['notifications find {fanOutId}'],
  },
  [`${MONGO}/notification/inbox.ts`]: { why: BY_ADMIN, statements: ['notifications find', 'notifications aggregate'] },
  [`${MONGO}/notification/snapshots.ts`]: {
    why: 'the report names a notification whose user is not known',
    statements: ['notifications find {_id}'],
  },
  [`${MONGO}/notification/stage-fan-out.ts`]: {
    why: 'the rows of a fan-out belong to many users',
    statements: ['notifications find', 'notifications update', 'notifications delete'],
  },
  [`${MONGO}/notification/summarize-support.ts`]: {
    why: BY_ADMIN,
    statements: ['notifications find', 'notifications aggregate', 'notification_delivery_attempts aggregate'],
  },
  [`${MONGO}/operations/attempt-lines.ts`]: { why: BY_OPERATOR, statements: ['attempts find'] },
  [`${MONGO}/operations/bulk-acts.ts`]: {
    why: 'bulk acts are listed newest first',
    statements: ['commands find {queue}'],
  },
  [`${MONGO}/operations/classifier-lines.ts`]: { why: BY_OPERATOR, statements: ['ai_generations find'] },
  [`${MONGO}/operations/exam-attempts.ts`]: { why: BY_OPERATOR, statements: ['attempts find'] },
  [`${MONGO}/operations/exam.ts`]: {
    why: BY_OPERATOR,
    statements: ['attempts find', 'attempts aggregate', 'attempt_notices aggregate'],
  },
  [`${MONGO}/operations/invariants/attempts.ts`]: {
    why: CHECKED,
    statements: ['attempts find', 'attempt_releases find'],
  },
  [`${MONGO}/operations/invariants/classifier.ts`]: {
    why: CHECKED,
    statements: ['ai_generations find', 'ai_generation_holds find'],
  },
  [`${MONGO}/operations/invariants/commands.ts`]: { why: CHECKED, statements: ['mailboxes find'] },
  [`${MONGO}/operations/invariants/notifications.ts`]: {
    why: CHECKED,
    statements: ['notifications find', 'notification_deliveries find'],
  },
  [`${MONGO}/operations/notification-lines.ts`]: {
    why: BY_OPERATOR,
    statements: ['notifications find', 'notification_deliveries find'],
  },
  [`${MONGO}/operations/reading.ts`]: { why: BY_OPERATOR, statements: ['mailboxes find'] },
  [`${MONGO}/operations/trace.ts`]: {
    why: BY_OPERATOR,
    statements: ['auth_sessions find', 'notification_delivery_attempts find'],
  },
  [`${MONGO}/person/export.ts`]: {
    why: OF_PERSON,
    statements: [
      'mailboxes find',
      'attempt_link_seats find',
      'auth_known_pairs find',
      'ai_generations find',
      'ai_usage_events find',
      'notifications find',
    ],
  },
  [`${MONGO}/person/find.ts`]: {
    why: OF_PERSON,
    statements: ['mailboxes', 'attempt_link_seats', 'auth_known_pairs', 'ai_generations', 'ai_usage_events']
      .concat('notifications', 'notification_delivery_attempts')
      .flatMap((collection) => [`${collection} find`, `${collection} aggregate`]),
  },
  [`${MONGO}/person/retention.ts`]: {
    why: 'old rows of all users end, and the rounds of an expired job are found by the job',
    statements: ['attempts find', 'notifications find', 'commands delete {subject}'],
  },
  [`${MONGO}/person/second-pass.ts`]: {
    why: 'the sweep finds erasures of any person',
    statements: ['erased_persons find'],
  },
  [`${MONGO}/schema/migrate.ts`]: {
    why: 'a step changes the rows of every shard',
    statements: ['mailboxes update {lockedUntil $ne, movedAt $exists}'],
  },
};

/** The only file that counts whole collections: `examhall migrate --shard` shows their sizes. */
const PLAN = `${MONGO}/schema/distribution.ts`;

/** Returns true if this file may send this statement to every shard. */
export function isExcepted({ collection, command, shape, fault }: Fault, file: string): boolean {
  if (fault !== 'goes to every shard') return false;
  if (file === PLAN) return command === 'count';
  const names = MAILBOXES.some((mailbox) => mailbox === collection) ? [collection, 'mailboxes'] : [collection];
  const statements = SHARD_EXCEPTIONS[file]?.statements ?? [];
  return names.some(
    (name) => statements.includes(`${name} ${command}`) || statements.includes(`${name} ${command} {${shape}}`),
  );
}
