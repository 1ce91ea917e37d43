import type { ClientSession } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from './connect.ts';

/**
 * Reads that show the causes of what their session has seen.
 *
 * On a sharded cluster a transaction commits on each of its shards by itself. A reader that sees its command on one shard may read on
 * another shard before the commit arrives there, and a plain read then returns the document as it was. A read in a session names
 * the latest time that the session has seen (`afterClusterTime`), so MongoDB waits for that commit before it answers.
 */

/** Options of a read, to be spread into its other options. */
interface ReadIn {
  session?: ClientSession;
  readConcern?: { level: 'majority' };
  maxTimeMS?: number;
}

/**
 * Returns the options of a read that shows everything that `session` has seen. Without a session, the read is a plain one.
 *
 * Each call returns a new read concern. The driver writes the time into the read concern of a command; without one, it would write into
 * the client's own object, which serves all other reads.
 */
export function readIn(session: ClientSession | undefined): ReadIn {
  if (session === undefined) return {};
  // The read waits for a shard that lags. Without a limit, it would hold its slot or its request until the socket times out.
  return { session, readConcern: { level: 'majority' }, maxTimeMS: QUERY_LIMIT_MS };
}

/** Makes later reads of `session` show everything that `other` has seen as well. */
export function catchUp(session: ClientSession, other: ClientSession): void {
  if (other.clusterTime !== undefined) session.advanceClusterTime(other.clusterTime);
  if (other.operationTime !== undefined) session.advanceOperationTime(other.operationTime);
}

/**
 * Runs `work` with a session, and returns its result. Each read of `work` that uses `readIn(session)` shows everything that the earlier
 * ones have seen. Two reads of a session must not run at the same time.
 */
export function inCausalOrder<Result>(
  mongo: Mongo,
  work: (session: ClientSession) => Promise<Result>,
): Promise<Result> {
  return mongo.client.withSession(work);
}

/** Reads once for several callers. The read shows what the session of each has seen, and later reads in each of them show what it has. */
export async function readForAll<Found>(
  callers: readonly { session?: ClientSession | undefined }[],
  read: (session: ClientSession | undefined) => Promise<Found>,
): Promise<Found> {
  const [session, ...others] = callers.flatMap((caller) => caller.session ?? []);
  if (session === undefined) return read(session);
  for (const other of others) catchUp(session, other);
  const found = await read(session);
  for (const other of others) catchUp(other, session);
  return found;
}
