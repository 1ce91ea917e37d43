import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { Session } from '#shared/auth/session.ts';
import { sessions } from './collections.ts';

/** As many as the reply's schema holds. Who signs in more often in a month, and never out, sees those used last. */
const MOST = 1_000;

/** The sessions that live by `now` (Unix milliseconds, MongoDB's clock), the last used first. */
export async function liveSessions(mongo: Mongo, accountId: string, now: number): Promise<Session[]> {
  return sessions(mongo)
    .find({ accountId, endedAt: null, expiresAt: { $gt: new Date(now) } }, { maxTimeMS: QUERY_LIMIT_MS })
    .sort({ lastUsedAt: -1, _id: -1 })
    .limit(MOST)
    .toArray();
}
