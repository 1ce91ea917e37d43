import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import type { Account } from '#shared/auth/account.ts';
import { accounts } from './collections.ts';

/** What of a new account is another one's already. `code taken`: draw another accountCode and try again. */
export type Taken = 'email taken' | 'phone taken' | 'legacy id taken' | 'code taken';

/**
 * Reads the duplicate key error of an account's insert; any other error is thrown on. A server names one index of those that were
 * in the way, whichever it came upon first: the e-mail is looked up, so that the same request has the same answer everywhere.
 */
export async function takenBy(mongo: Mongo, error: unknown, { email }: Pick<Account, 'email'>): Promise<Taken> {
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
