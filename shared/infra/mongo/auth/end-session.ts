import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { literal } from '#infra/mongo/guarded-update.ts';
import type { SessionEnd } from '#shared/auth/session.ts';
import { sessions } from './collections.ts';
import { ending } from './ending.ts';

/** Ends one live session of the account. False: it has none of that id. */
export async function endSession(
  mongo: Mongo,
  wanted: { accountId: string; sessionId: string; reason: SessionEnd },
): Promise<boolean> {
  const { pipeline } = ending(wanted.reason, { $eq: ['$accountId', literal(wanted.accountId)] });
  const ended = await sessions(mongo).updateOne({ _id: wanted.sessionId }, pipeline, { maxTimeMS: QUERY_LIMIT_MS });
  return ended.modifiedCount === 1;
}
