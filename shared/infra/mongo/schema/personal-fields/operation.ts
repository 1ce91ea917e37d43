import type { ClusterKey } from '#infra/mongo/cluster-key.ts';
import type { ErasedPerson } from '#infra/mongo/erased-persons.ts';
import type { Stamped } from '#infra/mongo/guarded-update.ts';
import type { WorkerRow } from '#infra/mongo/live-workers.ts';
import type { IsolationSlot } from '#infra/mongo/mailbox/suspects.ts';
import type { ConsoleEnd } from '#infra/mongo/operations/console-ends.ts';
import type { ClusterSample } from '#infra/mongo/operations/samples.ts';
import type { AuditRow } from '#infra/mongo/operator-audit.ts';
import type { SchemaState } from '#infra/mongo/schema-state.ts';
import type { Command, Queue } from '#shared/kernel/command.ts';
import type { Subscription } from '#shared/operations/subscription.ts';
import { declareRows, type Link, updated } from './rules.ts';

/** Fields by which workers run a command. */
const RUN_FIELDS =
  `v key live cause attempts maxAttempts lapses nextRunAt lockedUntil dueAt workerId session fence progress
  failing failingSince movedAt replays letter stamp` as const;

/** Fields of a command that sends the person a message. Its row is deleted. */
export const MESSAGE_FIELDS = {
  deleted: '_id queue subject organizationId status body result lastError createdAt settledAt',
  technical: RUN_FIELDS,
} as const;

/** Parts of bodies that are about a person: the student of the attempt, metadata of a client's TIMEOUT event, the reason of an act, and remarks. */
export const PERSONAL_PARTS = [
  'body.studentId',
  'body.client',
  'body.statedReason',
  'body.handoff.feedback',
  'body.handoff.criteria',
] as const;

/** Rows that a worker is running. */
export function whileLeased(now: Date) {
  return { lockedUntil: { $gt: now } };
}

/**
 * Notices to the owner of an account are deleted. Commands of an attempt stay, because their keys make a repeat a replay; the student
 * and the remarks in them go. A dead one is deleted: replayed after the erasure, it would grade the attempt without its texts.
 * `body.handoff.gradedById` names a teacher and stays with the grade.
 */
const OF_COMMANDS: readonly Link[] = [
  // A bulk act for a person goes on under the pseudonym, so that its end is in the audit. The letters of the person are deleted.
  {
    ...updated('subject', ({ pseudonym }) => ({ $set: { subject: pseudonym, 'body.filter.subject': pseudonym } })),
    pending: { queue: 'upkeep:deadletters' satisfies Queue },
  },
  // A worker that is sending the notice would store an event about the person after the erasure.
  { by: 'person', field: 'subject', erase: 'delete', waits: whileLeased },
  {
    by: 'attempt',
    field: 'subject',
    // A dead bulk act for an attempt names no person, and has its end in the audit once it is replayed.
    pending: { status: 'DEAD', queue: { $ne: 'upkeep:deadletters' satisfies Queue } },
    erase: 'delete',
  },
  {
    by: 'attempt',
    field: 'subject',
    pending: { $or: PERSONAL_PARTS.map((field) => ({ [field]: { $ne: null } })) },
    erase: { update: () => [{ $unset: [...PERSONAL_PARTS] }] },
  },
];

const ACCOUNTABLE = 'the audit is never changed; it proves who acted on an account, and why';

/** Collections of no service. An operator is no person here: the name in the audit belongs to the employer's records. */
export const OPERATION_FIELDS = {
  commands: declareRows<Command & Stamped>()(OF_COMMANDS, {
    pseudonym: 'subject',
    removed: 'body',
    stays: '_id queue createdAt',
    technical: `${RUN_FIELDS} organizationId status result lastError settledAt`,
    kept: {
      key: 'makes a repeat a replay; its parts are the id of an attempt and the source event of a service',
      cause: 'ids of a request and of a trace, which the gateway makes for each request',
    },
  }),
  operator_audit: declareRows<AuditRow>()([], {
    technical: `_id action subject detail queue commandId lastError chargeSuperseded operator reason at seq previous hash`,
    kept: { subject: ACCOUNTABLE, detail: ACCOUNTABLE, operator: ACCOUNTABLE, reason: ACCOUNTABLE },
  }),
  event_subscriptions: declareRows<Subscription>()([], {
    secret: 'secret previousSecret',
    technical: `_id url types organizationId description state disabledReason previousUntil failingSince pausedUntil
      createdAt updatedAt`,
  }),
  workers: declareRows<WorkerRow>()([], {
    technical: `_id actor queues host pid version schema router startedAt seenAt slots busy rssBytes settled failed died
      unanswering heldLoop`,
  }),
  isolation_slot: declareRows<IsolationSlot>()([], { technical: '_id until workerId queue commandId stamp' }),
  cluster_samples: declareRows<ClusterSample>()([], { technical: '_id at queues heldLoops' }),
  console_ends: declareRows<ConsoleEnd>()([], { technical: '_id endsAt' }),
  cluster_keys: declareRows<ClusterKey>()([], { secret: 'key', technical: '_id createdAt' }),
  schema_state: declareRows<SchemaState>()([], {
    technical: '_id version compatibleFrom runner lockedUntil passed sharded stamp',
  }),
  erased_persons: declareRows<ErasedPerson>()([], {
    removed: 'pseudonym',
    technical: '_id state operator reason begunAt erasedAt counts again stamp',
    kept: {
      _id: 'the digest of the id: it refuses requests and events that would store the person again',
      operator: ACCOUNTABLE,
      reason: ACCOUNTABLE,
      again: 'the id until the second pass, which begins 20 minutes after the erasure and removes it',
    },
  }),
} as const;
