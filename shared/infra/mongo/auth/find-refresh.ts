import type { Account } from '../../../auth/account.ts';
import type { RefreshToken, Session } from '../../../auth/session.ts';
import { type Mongo, QUERY_LIMIT_MS } from '../connect.ts';
import { tokens } from './collections.ts';
import { findSession } from './find-session.ts';

/** What a refresh is judged by; null is what there is none of. */
export interface Refresh {
  token: RefreshToken | null;
  session: Session | null;
  account: Account | null;
}

/**
 * What a refresh token names, as it is now, by three reads at once. They are of no one instant: what is decided on them
 * holds only if rotateToken finds token and session so. A stored token of another session or account is none.
 */
export async function findRefresh(mongo: Mongo, claims: { jti: string; sid: string; sub: string }): Promise<Refresh> {
  const [token, { session, account }] = await Promise.all([
    tokens(mongo).findOne({ _id: claims.jti }, { maxTimeMS: QUERY_LIMIT_MS }),
    findSession(mongo, claims),
  ]);
  const isOfBoth = token?.sessionId === claims.sid && token.accountId === claims.sub;
  return { token: isOfBoth ? token : null, session, account };
}
