import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import type { Account } from '#shared/auth/account.ts';
import type { RefreshToken, Session } from '#shared/auth/session.ts';
import { accounts, sessions, tokens } from './collections.ts';

/** By its normalized e-mail, whatever its status. */
export async function findAccountByEmail(mongo: Mongo, email: string): Promise<Account | null> {
  return accounts(mongo).findOne({ email }, { maxTimeMS: QUERY_LIMIT_MS });
}

export async function findAccount(mongo: Mongo, id: string): Promise<Account | null> {
  return accounts(mongo).findOne({ _id: id }, { maxTimeMS: QUERY_LIMIT_MS });
}

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

/**
 * Stores an account that comes from elsewhere; nobody is signed in by that. `there already`: an earlier import brought the account
 * of this e-mail, under the same legacy id or, as this one, under none; what became of it since stays. One that somebody
 * registered is not the school's pupil for having the e-mail: `email taken`.
 */
export async function importAccount(mongo: Mongo, account: Account): Promise<'inserted' | 'there already' | Taken> {
  try {
    await accounts(mongo).insertOne({ ...account, importedAt: account.createdAt }, { maxTimeMS: QUERY_LIMIT_MS });
    return 'inserted';
  } catch (error) {
    const taken = await takenBy(mongo, error, account);
    if (taken !== 'email taken') return taken;
    const holder = await accounts(mongo).findOne(
      { email: account.email },
      { projection: { legacyId: 1, importedAt: 1 }, maxTimeMS: QUERY_LIMIT_MS },
    );
    const isImported = holder?.importedAt !== undefined && holder.legacyId === account.legacyId;
    return isImported ? 'there already' : 'email taken';
  }
}

/** What of a new account is another one's already. `code taken`: draw another accountCode and try again. */
type Taken = 'email taken' | 'phone taken' | 'legacy id taken' | 'code taken';

/**
 * Reads the duplicate key error of an account's insert; any other error is thrown on. A server names one index of those that were
 * in the way, whichever it came upon first: the e-mail is looked up, so that the same request has the same answer everywhere.
 */
async function takenBy(mongo: Mongo, error: unknown, { email }: Pick<Account, 'email'>): Promise<Taken> {
  if (isDuplicateKey(error, ['email'])) return 'email taken';
  const taken = otherThanEmail(error);
  if (taken === null) throw error;
  const holder = await accounts(mongo).findOne({ email }, { projection: { _id: 1 }, maxTimeMS: QUERY_LIMIT_MS });
  return holder === null ? taken : 'email taken';
}

function otherThanEmail(error: unknown): Taken | null {
  if (isDuplicateKey(error, ['phone'])) return 'phone taken';
  if (isDuplicateKey(error, ['legacyId'])) return 'legacy id taken';
  return isDuplicateKey(error, ['accountCode']) ? 'code taken' : null;
}
