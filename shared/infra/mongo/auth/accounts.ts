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
 * others learn what is `taken`, the e-mail before the phone where both are.
 */
export async function insertAccount(
  mongo: Mongo,
  wanted: { account: Account; session: Session; token: RefreshToken },
  budgetMs: number,
): Promise<Inserted | Taken> {
  try {
    await inTransaction(mongo, budgetMs, async (session) => {
      await accounts(mongo).insertOne(wanted.account, { session });
      await sessions(mongo).insertOne(wanted.session, { session });
      await tokens(mongo).insertOne(wanted.token, { session });
    });
    return { kind: 'inserted' };
  } catch (error) {
    return takenBy(mongo, error, wanted.account);
  }
}

/**
 * Stores an account that comes from elsewhere; nobody is signed in by that. `known`: an earlier import brought the account
 * of this e-mail, under the same legacy id or, as this one, under none; what became of it since stays. One that somebody
 * registered is not the school's pupil for having the e-mail: that one is `taken`.
 */
export async function importAccount(mongo: Mongo, account: Account): Promise<Inserted | { kind: 'known' } | Taken> {
  try {
    await accounts(mongo).insertOne({ ...account, importedAt: account.createdAt }, { maxTimeMS: QUERY_LIMIT_MS });
    return { kind: 'inserted' };
  } catch (error) {
    const taken = await takenBy(mongo, error, account);
    if (taken.what !== 'email') return taken;
    const holder = await accounts(mongo).findOne(
      { email: account.email },
      { projection: { legacyId: 1, importedAt: 1 }, maxTimeMS: QUERY_LIMIT_MS },
    );
    const isImported = holder?.importedAt !== undefined && holder.legacyId === account.legacyId;
    return isImported ? { kind: 'known' } : taken;
  }
}

interface Inserted {
  kind: 'inserted';
}

/** What of a new account is another one's already. `code`: draw another accountCode and try again. */
interface Taken {
  kind: 'taken';
  what: 'email' | 'phone' | 'legacyId' | 'code';
}

/**
 * Reads the duplicate key error of an account's insert; any other error is thrown on. A server names one index of those that were
 * in the way, whichever it came upon first: the e-mail is looked up, so that the same request has the same answer everywhere.
 */
async function takenBy(mongo: Mongo, error: unknown, { email }: Pick<Account, 'email'>): Promise<Taken> {
  if (isDuplicateKey(error, ['email'])) return { kind: 'taken', what: 'email' };
  const what = otherThanEmail(error);
  if (what === null) throw error;
  const holder = await accounts(mongo).findOne({ email }, { projection: { _id: 1 }, maxTimeMS: QUERY_LIMIT_MS });
  return { kind: 'taken', what: holder === null ? what : 'email' };
}

function otherThanEmail(error: unknown): Taken['what'] | null {
  if (isDuplicateKey(error, ['phone'])) return 'phone';
  if (isDuplicateKey(error, ['legacyId'])) return 'legacyId';
  return isDuplicateKey(error, ['accountCode']) ? 'code' : null;
}
