import type { Mongo } from '#infra/mongo/connect.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import type { Account } from '#shared/auth/account.ts';
import type { RefreshToken, Session } from '#shared/auth/session.ts';
import { accounts, sessions, tokens } from './collections.ts';
import { type Taken, takenBy } from './taken.ts';

/**
 * Stores a new account, signed in: account, session and refresh token, or none of them. That an e-mail, a phone and an
 * account code are one account's is for the unique indexes to say: of registers at once, one is `inserted` and the
 * others learn what is taken, the e-mail before the phone where both are.
 */
export async function insertAccount(
  mongo: Mongo,
  wanted: { account: Account; session: Session; token: RefreshToken },
  budgetMs: number,
): Promise<'inserted' | Taken> {
  try {
    await inTransaction(mongo, budgetMs, async (session) => {
      await accounts(mongo).insertOne(wanted.account, { session });
      await sessions(mongo).insertOne(wanted.session, { session });
      await tokens(mongo).insertOne(wanted.token, { session });
    });
    return 'inserted';
  } catch (error) {
    return takenBy(mongo, error, wanted.account);
  }
}
