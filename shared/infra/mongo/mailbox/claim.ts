import { type ClientSession, MongoServerError, UUID } from 'mongodb';
import { inCausalOrder } from '#infra/mongo/causal-read.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import {
  type GuardedUpdate,
  guardedUpdate,
  literal,
  msOf,
  NOW_MS,
  nowPlus,
  wasAccepted,
} from '#infra/mongo/guarded-update.ts';
import {
  type CommandError,
  type CommandRef,
  FATAL_LAPSES,
  type Queue,
  SUSPECT_LAPSES,
  UNLIMITED_ATTEMPTS,
} from '#shared/kernel/command.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { type CommandOf, LEFT_BEHIND } from './commands.ts';
import { mailboxOf } from './mailbox.ts';

/**
 * The result of a claim.
 *
 * - `claimed`: the command is leased to this worker and its attempt is counted.
 * - `held`: the command is a suspect, which no worker may run beside others. It waits for the isolation slot.
 * - `dead`: no attempt was left, because the last run ended with its worker, or the run alone has lapsed too. This claim has made
 *   the command DEAD; no other claim gets this result.
 * - `refused`: the command is not due, leased by another worker, settled or unknown.
 */
export type Claim<Q extends Queue> =
  | { kind: 'claimed'; command: CommandOf<Q> }
  | { kind: 'held'; command: CommandOf<Q> }
  | { kind: 'dead'; command: CommandOf<Q> }
  | { kind: 'refused' };

/** The worker that claims, and the session in which it does. */
export interface Holder {
  workerId: string;
  leaseMs: number;
  session?: ClientSession;
  /** The end of the isolation slot, which this worker holds for the command. Only a suspect is claimed then. */
  aloneUntil?: Date;
  /** true = no lapse is counted, and a suspect is claimed as well: see `Kernel.amongRequests`. */
  amongRequests?: boolean;
}

/**
 * Leases a command to this worker for `leaseMs`, if it is due by MongoDB's clock. The attempt is counted now, before anything
 * runs. A command that was posted to run at once is due until its first claim, whatever the clock of its sender was.
 *
 * The same update counts a lapse. A stored lease proves one: each outcome and each undone claim removes the lease, so only a claim
 * without an outcome leaves it behind.
 *
 * The claim runs in the holder's session. Later reads in it wait for the transaction that posted the command, which may not have
 * arrived yet on the shards of its other documents.
 */
export async function claimCommand<Q extends Queue>(
  mongo: Mongo,
  ref: CommandRef<Q>,
  holder: Holder,
): Promise<Claim<Q>> {
  const { _id, queue, key } = ref;
  const update = claimUpdate(ref, holder);
  const after = await mailboxOf<Queue>(mongo, queue).findOneAndUpdate({ _id, key }, update.pipeline, {
    returnDocument: 'after',
    // The open transaction of a killed process may hold the document. The claim must then fail instead of blocking its slot.
    maxTimeMS: QUERY_LIMIT_MS,
    ...(holder.session === undefined ? {} : { session: holder.session }),
  });
  return claimOf(update, after as CommandOf<Q> | null);
}

export function claimOf<Q extends Queue>(update: GuardedUpdate, after: CommandOf<Q> | null): Claim<Q> {
  if (after === null || !wasAccepted(update, after)) return { kind: 'refused' };
  if (after.status === 'DEAD') return { kind: 'dead', command: after };
  return { kind: after.lockedUntil === null ? 'held' : 'claimed', command: after };
}

export function claimUpdate({ queue }: CommandRef, holder: Holder): GuardedUpdate {
  const { workerId, leaseMs, session, aloneUntil, amongRequests = false } = holder;
  const isHeld = aloneUntil === undefined && !amongRequests ? { $gte: ['$lapses', SUSPECT_LAPSES] } : literal(false);
  return guardedUpdate(
    [
      { $eq: ['$status', 'PENDING'] },
      { $eq: ['$queue', literal(queue)] },
      aloneUntil === undefined ? IS_DUE : isSuspectUntil(aloneUntil),
    ],
    { lapses: amongRequests ? '$lapses' : LAPSES },
    {
      status: { $cond: [{ $or: [{ $gte: ['$attempts', '$maxAttempts'] }, IS_POISONED] }, 'DEAD', 'PENDING'] },
    },
    {
      lockedUntil: {
        $cond: [{ $or: [IS_DEAD, isHeld] }, null, aloneUntil === undefined ? nowPlus(leaseMs) : literal(aloneUntil)],
      },
    },
    {
      attempts: { $cond: [IS_LEASED, { $add: ['$attempts', 1] }, '$attempts'] },
      fence: { $add: ['$fence', 1] },
      // The first claim replaces `nextRunAt`.
      dueAt: { $cond: [{ $eq: ['$fence', 0] }, '$nextRunAt', '$dueAt'] },
      movedAt: { $cond: [IS_LEASED, '$$NOW', '$movedAt'] },
      workerId: { $cond: [IS_LEASED, literal(workerId), null] },
      session: { $cond: [IS_LEASED, literal(session === undefined ? null : sessionIdOf(session)), null] },
      nextRunAt: { $cond: [IS_LEASED, '$lockedUntil', { $cond: [IS_DEAD, '$nextRunAt', nowPlus(HELD_MS)] }] },
      settledAt: { $cond: [IS_DEAD, '$$NOW', null] },
      lastError: { $cond: [IS_DEAD, { $cond: [IS_POISONED, POISONED, WORKER_LOST] }, '$lastError'] },
      ...Object.fromEntries(
        (LEFT_BEHIND[queue] ?? []).map((field) => [field, { $cond: [IS_DEAD, '$$REMOVE', `$${field}`] }]),
      ),
    },
  );
}

/**
 * The lapses after a claim: a stored lease is one more. A recurring command never has its last attempt, so it stays a suspect. Without
 * a lapse the field stays absent.
 */
const LAPSES = {
  $cond: [
    { $eq: ['$lockedUntil', null] },
    '$lapses',
    {
      $cond: [
        { $and: [{ $eq: ['$lapses', SUSPECT_LAPSES] }, { $gte: ['$maxAttempts', literal(UNLIMITED_ATTEMPTS)] }] },
        '$lapses',
        { $add: [{ $ifNull: ['$lapses', 0] }, 1] },
      ],
    },
  ],
};
const IS_POISONED = { $gte: ['$lapses', FATAL_LAPSES] };
const IS_DEAD = { $eq: ['$status', 'DEAD'] };
const IS_LEASED = { $ne: ['$lockedUntil', null] };

/** The sender's clock may be ahead of MongoDB's. Its ring must not be refused because of that. */
const DUE_AT_ONCE = { $and: [{ $eq: ['$fence', 0] }, { $eq: [msOf('$nextRunAt'), msOf('$createdAt')] }] };
const IS_DUE = { $or: [{ $lte: [msOf('$nextRunAt'), NOW_MS] }, DUE_AT_ONCE] };

/** Returns the condition of a claim under the isolation slot: a suspect that no worker runs, while the slot is not over. */
function isSuspectUntil(end: Date) {
  return {
    $and: [
      { $eq: ['$lapses', SUSPECT_LAPSES] },
      { $eq: ['$lockedUntil', null] },
      { $lt: [NOW_MS, literal(end.getTime())] },
    ],
  };
}

/**
 * Time until a worker claims a suspect again to find that it is one. Until then no poll lists it, and it does not count as due. The
 * isolation slot does not wait for that time.
 */
const HELD_MS = HOUR;

const WORKER_LOST: Record<keyof CommandError, string | null> = {
  fingerprint: 'WorkerLost',
  message: 'no attempt is left: the worker of the last attempt ended without settling the command',
  at: '$$NOW',
  code: 'WORKER_KILLED' satisfies CommandError['code'],
  refusal: null,
};

const POISONED: Record<keyof CommandError, string | null> = {
  fingerprint: 'Poisoned',
  message: 'three runs in a row did not end, the last one alone: each blocked its worker, ended it or ran out of time',
  at: '$$NOW',
  code: 'POISONED' satisfies CommandError['code'],
  refusal: null,
};

/**
 * Runs `work` with the session in which a claim, its reads and its transactions run. The claim stores the session's id on the command.
 *
 * MongoDB keeps the transaction of a killed process open for a minute (`transactionLifetimeLimitSeconds`) and locks every
 * document that it wrote. A worker that finds the lease expired therefore ends the stored session.
 */
export function withHolderSession<Result>(
  mongo: Mongo,
  work: (session: ClientSession) => Promise<Result>,
): Promise<Result> {
  return inCausalOrder(mongo, work);
}

/** Returns the session's id in the form that a command stores; null if the driver has not assigned an id yet. */
export function sessionIdOf(session: ClientSession): string | null {
  return session.id === undefined ? null : session.id.id.toUUID().toHexString();
}

/**
 * Ends the sessions of workers whose leases have expired, so that MongoDB rolls back their open transactions at once. If a worker was only
 * paused, it loses its transaction too, which its fence would have refused in any case. One transaction may have been to settle
 * several commands, in the session of any of them: end those of all abandoned commands before the first is claimed.
 *
 * A router calls each member of each shard, also secondaries, and fails if one of them is down. It has then ended the session on all others. If
 * the primary of the command is down, its claim fails as well.
 */
export async function endHolderSessions(mongo: Mongo, sessionIds: readonly string[]): Promise<void> {
  if (sessionIds.length === 0) return;
  const killSessions = sessionIds.map((id) => ({ id: new UUID(id) }));
  try {
    await mongo.db.admin().command({ killSessions, maxTimeMS: QUERY_LIMIT_MS });
  } catch (error) {
    if (!(error instanceof MongoServerError && error.code === HOST_UNREACHABLE)) throw error;
  }
}

const HOST_UNREACHABLE = 6;
