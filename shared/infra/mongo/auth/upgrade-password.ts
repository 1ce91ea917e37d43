import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { guardedUpdate, literal } from '#infra/mongo/guarded-update.ts';
import type { StoredPassword } from '#shared/auth/account.ts';
import { accounts } from './collections.ts';

/**
 * Keeps the same password under a better hash. False: it was changed or upgraded meanwhile. To the person nothing has changed, so
 * sessions go on and `updatedAt` stays.
 */
export async function upgradePassword(
  mongo: Mongo,
  accountId: string,
  from: string,
  to: StoredPassword,
): Promise<boolean> {
  const { pipeline } = guardedUpdate([{ $eq: ['$password.hash', literal(from)] }], { password: literal(to) });
  const upgraded = await accounts(mongo).updateOne({ _id: accountId }, pipeline, { maxTimeMS: QUERY_LIMIT_MS });
  return upgraded.modifiedCount === 1;
}
