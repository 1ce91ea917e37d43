import type { Mongo } from '#infra/mongo/connect.ts';
import type { PresentedRefresh } from '#shared/auth/session.ts';
import { findSession } from './find-session.ts';
import { findToken } from './find-token.ts';

/**
 * What a refresh token names, as it is now, by three reads at once. They are of no one instant: what is decided on them
 * holds only if rotateToken finds token and session so. A stored token of another session or account is none.
 */
export async function findRefresh(
  mongo: Mongo,
  claims: { jti: string; sid: string; sub: string },
): Promise<PresentedRefresh> {
  const [token, { session, account }] = await Promise.all([findToken(mongo, claims), findSession(mongo, claims)]);
  return { token, session, account };
}
