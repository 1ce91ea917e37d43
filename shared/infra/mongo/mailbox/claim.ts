import { type ClientSession, UUID } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { guardedUpdate, literal, msOf, NOW_MS, nowPlus, wasAccepted } from '#infra/mongo/guarded-update.ts';
import type { Queue } from '#shared/kernel/command.ts';
import type { CommandOf } from './commands.ts';
import { mailboxOf } from './mailbox.ts';

/**
 * `claimed`: leased to this worker, its attempt counted. `buried`: its attempts were spent (its last run killed its
 * worker), so that the claim itself made it DEAD; only the claim that did so gets this. `refused`: not due, leased by
 * another worker, settled, or unknown.
 */
export type Claim<Q extends Queue> =
  | { kind: 'claimed'; command: CommandOf<Q> }
  | { kind: 'buried'; command: CommandOf<Q> }
  | { kind: 'refused' };

/**
 * Takes the command under a lease. The attempt is counted here, before anything runs. A command that was posted to run at
 * once and was never claimed is due whatever the clocks say.
 */
export async function claimCommand<Q extends Queue>(
  mongo: Mongo,
  wanted: { queue: Q; id: string; workerId: string; leaseMs: number; session?: ClientSession },
): Promise<Claim<Q>> {
  // Of two clocks, that of the process which posted it may be ahead: its ring must not be refused for that.
  const dueAtOnce = { $and: [{ $eq: ['$fence', 0] }, { $eq: [msOf('$nextRunAt'), msOf('$createdAt')] }] };
  const exhausted = { $gte: ['$attempts', '$maxAttempts'] };
  const unless = (spent: unknown, taken: unknown) => ({ $cond: [exhausted, spent, taken] });
  const update = guardedUpdate(
    [
      { $eq: ['$status', 'PENDING'] },
      { $eq: ['$queue', literal(wanted.queue)] },
      { $or: [{ $lte: [msOf('$nextRunAt'), NOW_MS] }, dueAtOnce] },
    ],
    {
      status: unless('DEAD', 'PENDING'),
      attempts: unless('$attempts', { $add: ['$attempts', 1] }),
      fence: { $add: ['$fence', 1] },
      workerId: literal(wanted.workerId),
      session: unless(null, literal(wanted.session === undefined ? null : sessionIdOf(wanted.session))),
      lockedUntil: unless(null, nowPlus(wanted.leaseMs)),
      nextRunAt: unless('$nextRunAt', nowPlus(wanted.leaseMs)),
      settledAt: unless('$$NOW', null),
      lastError: unless({ fingerprint: 'WorkerLost', message: LOST, at: '$$NOW' }, '$lastError'),
    },
  );
  const after = await mailboxOf(mongo, wanted.queue).findOneAndUpdate({ _id: wanted.id }, update.pipeline, {
    returnDocument: 'after',
    // Short of a lock that nobody gives back: the claim must not hang with its worker's slot.
    maxTimeMS: QUERY_LIMIT_MS,
  });
  if (!wasAccepted(update, after)) return { kind: 'refused' };
  const command = after as CommandOf<Q>;
  return { kind: command.status === 'DEAD' ? 'buried' : 'claimed', command };
}

const LOST = 'The worker of every attempt ended before the command did';

interface DueCommand {
  _id: string;
  /** The session of a holder that did not settle it within its lease. */
  session: string | null;
}

/**
 * Commands of this queue that are due and unleased by `now` (Unix milliseconds, MongoDB's clock), oldest due
 * first. Only a hint where to knock: the claim judges again, under MongoDB's own clock.
 */
export async function dueCommands(mongo: Mongo, queue: Queue, now: number, limit: number): Promise<DueCommand[]> {
  const due = await mailboxOf(mongo, queue)
    .find(
      { queue, status: 'PENDING', nextRunAt: { $lte: new Date(now) } },
      { projection: { session: 1 }, sort: { nextRunAt: 1 }, limit, maxTimeMS: QUERY_LIMIT_MS },
    )
    .toArray();
  return due.map(({ _id, session }) => ({ _id, session: session ?? null }));
}

/**
 * Runs `work` with the one session in which a claim's transactions are made. Its id is noted on the command: MongoDB
 * keeps the transaction of a killed process open, and with it every document that it wrote, for a minute
 * (transactionLifetimeLimitSeconds) unless somebody ends its session.
 */
export function withHolderSession<Result>(
  mongo: Mongo,
  work: (session: ClientSession) => Promise<Result>,
): Promise<Result> {
  return mongo.client.withSession(work);
}

/** Returns the session's id as a command stores it; null before the session's first command. */
export function sessionIdOf(session: ClientSession): string | null {
  return session.id === undefined ? null : session.id.id.toUUID().toHexString();
}

/**
 * Ends the session of a holder whose lease is over, so that what it left half done is undone at once. A holder that
 * was only paused loses its transaction too, which its fence would have refused in any case.
 */
export async function endHolderSession(mongo: Mongo, sessionId: string): Promise<void> {
  await mongo.db.admin().command({ killSessions: [{ id: new UUID(sessionId) }], maxTimeMS: QUERY_LIMIT_MS });
}
