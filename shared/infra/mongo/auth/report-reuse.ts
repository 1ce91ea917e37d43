import type { Mongo } from '#infra/mongo/connect.ts';
import { FRONT_DOOR_BUDGET_MS, inTransaction } from '#infra/mongo/transaction.ts';
import type { RefreshToken } from '#shared/auth/session.ts';
import { sessions } from './collections.ts';
import { ending } from './ending.ts';
import { noteSecurityEvent } from './security-events.ts';

/**
 * A consumed token came back: two hold it, and nobody can say which is the thief. Ends its session, whoever is in it, and
 * writes the security event, in one commit. False: the session was over already, and what ended it is told already.
 */
export async function reportReuse(
  mongo: Mongo,
  token: Pick<RefreshToken, '_id' | 'sessionId' | 'accountId' | 'consumedAt' | 'successorId'>,
  now: number,
  budgetMs: number = FRONT_DOOR_BUDGET_MS,
): Promise<boolean> {
  return inTransaction(mongo, budgetMs, async (session) => {
    const ended = await sessions(mongo).updateOne({ _id: token.sessionId }, ending('REUSE').pipeline, { session });
    if (ended.modifiedCount !== 1) return false;
    const { accountId, sessionId, consumedAt, successorId } = token;
    const metadata = { tokenId: token._id, consumedAt: consumedAt?.toISOString() ?? null, successorId };
    await noteSecurityEvent(mongo, { accountId, sessionId, type: 'REFRESH_REUSE', metadata }, now, session);
    return true;
  });
}
