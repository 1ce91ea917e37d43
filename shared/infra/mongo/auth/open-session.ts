import type { Mongo } from '#infra/mongo/connect.ts';
import { guardedUpdate, literal } from '#infra/mongo/guarded-update.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import type { RefreshToken, Session } from '#shared/auth/session.ts';
import { accounts, sessions, tokens } from './collections.ts';

/**
 * Stores a login: session and first refresh token, or neither. `passwordHash` is the stored hash that the password was
 * found right by. Checking a password takes a quarter of a second, in which it may be changed or the account suspended,
 * and all sessions ended; a login that was stored after that would outlive it. So the account must still be ACTIVE and have
 * that hash, and it is written as well: of a login and such a change at once, one sees the other. `changed
 * meanwhile`: nothing was stored; look at the account again.
 */
export async function openSession(
  mongo: Mongo,
  opened: { session: Session; token: RefreshToken; passwordHash: string },
  budgetMs: number,
): Promise<'opened' | 'changed meanwhile'> {
  const { accountId } = opened.session;
  return inTransaction(mongo, budgetMs, async (session) => {
    const unchanged = guardedUpdate(
      [{ $eq: ['$status', 'ACTIVE'] }, { $eq: ['$password.hash', literal(opened.passwordHash)] }],
      { lastLoginAt: '$$NOW' },
    );
    const held = await accounts(mongo).updateOne({ _id: accountId }, unchanged.pipeline, { session });
    if (held.modifiedCount !== 1) return 'changed meanwhile';
    await sessions(mongo).insertOne(opened.session, { session });
    await tokens(mongo).insertOne(opened.token, { session });
    return 'opened';
  });
}
