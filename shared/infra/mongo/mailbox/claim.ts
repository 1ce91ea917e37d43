import { type ClientSession, MongoServerError, UUID } from 'mongodb';
import { inCausalOrder } from '#infra/mongo/causal-read.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { guardedUpdate, literal, msOf, NOW_MS, nowPlus, wasAccepted } from '#infra/mongo/guarded-update.ts';
import type { CommandError, CommandRef, Queue } from '#shared/kernel/command.ts';
import { type CommandOf, LEFT_BEHIND } from './commands.ts';
import { mailboxOf } from './mailbox.ts';

/**
 * The result of a claim.
 *
 * - `claimed`: the command is leased to this worker and its attempt is counted.
 * - `dead`: no attempt was left, because the last run ended with its worker. This claim has made the command DEAD; no other
 *   claim gets this result.
 * - `refused`: the command is not due, leased by another worker, settled or unknown.
 */
export type Claim<Q extends Queue> =
  | { kind: 'claimed'; command: CommandOf<Q> }
  | { kind: 'dead'; command: CommandOf<Q> }
  | { kind: 'refused' };

/**
 * Leases a command to this worker for `leaseMs`, if it is due by MongoDB's clock. The attempt is counted now, before anything
 * runs. A command that was posted to run at once is due until its first claim, whatever the clock of its sender was.
 *
 * The claim runs in the holder's session. Later reads in it wait for the transaction that posted the command, which may not have
 * arrived yet on the shards of its other documents.
 */
export async function claimCommand<Q extends Queue>(
  mongo: Mongo,
  { _id, queue, key }: CommandRef<Q>,
  holder: { workerId: string; leaseMs: number; session?: ClientSession },
): Promise<Claim<Q>> {
  // The sender's clock may be ahead of MongoDB's. Its ring must not be refused because of that.
  const dueAtOnce = { $and: [{ $eq: ['$fence', 0] }, { $eq: [msOf('$nextRunAt'), msOf('$createdAt')] }] };
  const exhausted = { $gte: ['$attempts', '$maxAttempts'] };
  const unless = (spent: unknown, claimed: unknown) => ({ $cond: [exhausted, spent, claimed] });
  const update = guardedUpdate(
    [
      { $eq: ['$status', 'PENDING'] },
      { $eq: ['$queue', literal(queue)] },
      { $or: [{ $lte: [msOf('$nextRunAt'), NOW_MS] }, dueAtOnce] },
    ],
    {
      status: unless('DEAD', 'PENDING'),
      attempts: unless('$attempts', { $add: ['$attempts', 1] }),
      fence: { $add: ['$fence', 1] },
      // The first claim replaces `nextRunAt`. Without an earlier value, the path below is missing and the field stays absent.
      dueAt: { $cond: [{ $eq: ['$fence', 0] }, '$nextRunAt', '$dueAt'] },
      workerId: literal(holder.workerId),
      session: unless(null, literal(holder.session === undefined ? null : sessionIdOf(holder.session))),
      lockedUntil: unless(null, nowPlus(holder.leaseMs)),
      nextRunAt: unless('$nextRunAt', nowPlus(holder.leaseMs)),
      settledAt: unless('$$NOW', null),
      lastError: unless(WORKER_LOST, '$lastError'),
      ...Object.fromEntries((LEFT_BEHIND[queue] ?? []).map((field) => [field, unless('$$REMOVE', `$${field}`)])),
    },
  );
  const after = await mailboxOf<Queue>(mongo, queue).findOneAndUpdate({ _id, key }, update.pipeline, {
    returnDocument: 'after',
    // The open transaction of a killed process may hold the document. The claim must then fail instead of blocking its slot.
    maxTimeMS: QUERY_LIMIT_MS,
    ...(holder.session === undefined ? {} : { session: holder.session }),
  });
  if (!wasAccepted(update, after)) return { kind: 'refused' };
  const command = after as CommandOf<Q>;
  return { kind: command.status === 'DEAD' ? 'dead' : 'claimed', command };
}

const WORKER_LOST: Record<keyof CommandError, string> = {
  fingerprint: 'WorkerLost',
  message: 'no attempt is left: the worker of the last attempt ended without settling the command',
  at: '$$NOW',
  code: 'WORKER_KILLED' satisfies CommandError['code'],
  codeAt: '$$NOW',
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
 * Ends the session of a worker whose lease has expired, so that MongoDB rolls back its open transaction at once. If that worker
 * was only paused, it loses its transaction too, which its fence would have refused in any case.
 *
 * A router calls each member of each shard, also secondaries, and fails if one of them is down. It has then ended the session on all others. If
 * the primary of the command is down, its claim fails as well.
 */
export async function endHolderSession(mongo: Mongo, sessionId: string): Promise<void> {
  try {
    await mongo.db.admin().command({ killSessions: [{ id: new UUID(sessionId) }], maxTimeMS: QUERY_LIMIT_MS });
  } catch (error) {
    if (!(error instanceof MongoServerError && error.code === HOST_UNREACHABLE)) throw error;
  }
}

const HOST_UNREACHABLE = 6;
