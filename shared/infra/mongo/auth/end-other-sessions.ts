import type { ClientSession } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { literal } from '#infra/mongo/guarded-update.ts';
import type { SessionEnd } from '#shared/auth/session.ts';
import { sessions } from './collections.ts';
import { ending } from './ending.ts';

/**
 * Ends the account's live sessions but the one to `keep` (null: all of them), by itself or in the caller's transaction; gives
 * how many. By itself it is no one instant: killed half way it has ended some, and ends the rest when called again.
 */
export async function endOtherSessions(
  mongo: Mongo,
  wanted: { accountId: string; keep: string | null; reason: SessionEnd },
  session?: ClientSession,
): Promise<number> {
  const { accountId, keep, reason } = wanted;
  const others = keep === null ? [] : [{ $ne: ['$_id', literal(keep)] }];
  const ended = await sessions(mongo).updateMany(
    { accountId, endedAt: null },
    ending(reason, ...others).pipeline,
    session === undefined ? { maxTimeMS: QUERY_LIMIT_MS } : { session },
  );
  return ended.modifiedCount;
}
