import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { FRONT_DOOR_BUDGET_MS, inTransaction } from '#infra/mongo/transaction.ts';
import type { Account } from '#shared/auth/account.ts';
import type { RefreshToken, Session } from '#shared/auth/session.ts';
import { newId } from '#shared/kernel/ids.ts';
import { type AccountRow, accounts, securityEvents, sessions, tokens } from './collections.ts';

/** Returns the account of a normalized e-mail, whatever its status, or null. */
export async function findAccountByEmail(mongo: Mongo, email: string): Promise<Account | null> {
  return accounts(mongo).findOne({ email }, { maxTimeMS: QUERY_LIMIT_MS });
}

/** Returns the account, or null if it does not exist. */
export async function findAccount(mongo: Mongo, id: string): Promise<Account | null> {
  return accounts(mongo).findOne({ _id: id }, { maxTimeMS: QUERY_LIMIT_MS });
}

/**
 * Stores a new account that is signed in: account, session and refresh token, or none of them. Unique indexes ensure that an
 * e-mail, a phone and an account code belong to one account. Of concurrent registers one returns `inserted`. The others return
 * the `duplicate` field: the e-mail if both e-mail and phone are.
 */
export async function insertAccount(
  mongo: Mongo,
  wanted: { account: Account; session: Session; token: RefreshToken },
  budgetMs: number,
): Promise<Inserted | Duplicate> {
  try {
    await inTransaction(mongo, budgetMs, async (session) => {
      await accounts(mongo).insertOne(wanted.account, { session });
      await sessions(mongo).insertOne(wanted.session, { session });
      await tokens(mongo).insertOne(wanted.token, { session });
    });
    return { kind: 'inserted' };
  } catch (error) {
    return duplicateField(mongo, error, wanted.account);
  }
}

/**
 * Stores an account from another system and opens no session. `known`: an earlier import stored the account of this e-mail under
 * the same legacy id, or both have none; later changes to it stay. `duplicate`: another account has one of the values. An account
 * whose owner registered is always another one: its e-mail does not prove that it is the imported person. An ADMIN is stored with
 * the security event that a promotion writes.
 */
export async function importAccount(mongo: Mongo, account: Account): Promise<Inserted | { kind: 'known' } | Duplicate> {
  try {
    const row = { ...account, importedAt: account.createdAt };
    if (account.role === 'ADMIN') await insertAdmin(mongo, row);
    else await accounts(mongo).insertOne(row, { maxTimeMS: QUERY_LIMIT_MS });
    return { kind: 'inserted' };
  } catch (error) {
    const duplicate = await duplicateField(mongo, error, account);
    if (duplicate.field !== 'email') return duplicate;
    const holder = await accounts(mongo).findOne(
      { email: account.email },
      { projection: { legacyId: 1, importedAt: 1 }, maxTimeMS: QUERY_LIMIT_MS },
    );
    const isImported = holder?.importedAt !== undefined && holder.legacyId === account.legacyId;
    return isImported ? { kind: 'known' } : duplicate;
  }
}

async function insertAdmin(mongo: Mongo, row: AccountRow): Promise<void> {
  const { _id: accountId, createdAt: at } = row;
  const metadata = { from: null, to: 'ADMIN' };
  const event = { _id: newId(at.getTime()), accountId, sessionId: null, type: 'ROLE_CHANGED', at, metadata } as const;
  await inTransaction(mongo, FRONT_DOOR_BUDGET_MS, async (session) => {
    await accounts(mongo).insertOne({ ...row }, { session });
    await securityEvents(mongo).insertOne({ ...event }, { session });
  });
}

interface Inserted {
  kind: 'inserted';
}

/** The value of a new account that another account already has. `code`: draw another accountCode and insert again. */
interface Duplicate {
  kind: 'duplicate';
  field: 'email' | 'phone' | 'legacyId' | 'code';
}

/**
 * Maps the duplicate key error of an account's insert to the taken value; throws any other error again. If several values are
 * taken, a server names whichever index it checked first. An extra query for the e-mail makes the answer the same on every
 * server.
 */
async function duplicateField(mongo: Mongo, error: unknown, { email }: Pick<Account, 'email'>): Promise<Duplicate> {
  if (isDuplicateKey(error, ['email'])) return { kind: 'duplicate', field: 'email' };
  const field = fieldOtherThanEmail(error);
  if (field === null) throw error;
  const holder = await accounts(mongo).findOne({ email }, { projection: { _id: 1 }, maxTimeMS: QUERY_LIMIT_MS });
  return { kind: 'duplicate', field: holder === null ? field : 'email' };
}

function fieldOtherThanEmail(error: unknown): Duplicate['field'] | null {
  if (isDuplicateKey(error, ['phone'])) return 'phone';
  if (isDuplicateKey(error, ['legacyId'])) return 'legacyId';
  return isDuplicateKey(error, ['accountCode']) ? 'code' : null;
}
