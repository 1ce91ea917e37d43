import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { Account } from '#shared/auth/account.ts';
import type { Session } from '#shared/auth/session.ts';
import { sessions } from './collections.ts';
import { findAccount } from './find-account.ts';

/** What an access token names, as it is now. A session of another account is none. */
export async function findSession(
  mongo: Mongo,
  claims: { sub: string; sid: string },
): Promise<{ session: Session | null; account: Account | null }> {
  const [session, account] = await Promise.all([
    sessions(mongo).findOne({ _id: claims.sid }, { maxTimeMS: QUERY_LIMIT_MS }),
    findAccount(mongo, claims.sub),
  ]);
  return { session: session?.accountId === claims.sub ? session : null, account };
}
