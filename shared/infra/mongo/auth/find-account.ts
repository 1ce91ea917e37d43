import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { Account } from '#shared/auth/account.ts';
import { accounts } from './collections.ts';

/** By its normalized e-mail, whatever its status. */
export async function findAccountByEmail(mongo: Mongo, email: string): Promise<Account | null> {
  return accounts(mongo).findOne({ email }, { maxTimeMS: QUERY_LIMIT_MS });
}

export async function findAccount(mongo: Mongo, id: string): Promise<Account | null> {
  return accounts(mongo).findOne({ _id: id }, { maxTimeMS: QUERY_LIMIT_MS });
}
