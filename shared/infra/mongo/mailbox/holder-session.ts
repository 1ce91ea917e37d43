import { type ClientSession, UUID } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';

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

/** The session's id, as a command keeps it. */
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
