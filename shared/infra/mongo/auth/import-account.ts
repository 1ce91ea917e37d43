import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import type { Account } from '#shared/auth/account.ts';
import { accounts } from './collections.ts';
import { type Taken, takenBy } from './taken.ts';

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
