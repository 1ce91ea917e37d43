import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { RefreshToken } from '#shared/auth/session.ts';
import { tokens } from './collections.ts';

/** What is kept of a refresh token. A stored token of another session or account is none. */
export async function findToken(
  mongo: Mongo,
  claims: { jti: string; sid: string; sub: string },
): Promise<RefreshToken | null> {
  const token = await tokens(mongo).findOne({ _id: claims.jti }, { maxTimeMS: QUERY_LIMIT_MS });
  return token?.sessionId === claims.sid && token.accountId === claims.sub ? token : null;
}
