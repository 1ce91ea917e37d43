import type { Account } from '../../../auth/account.ts';
import { type Mongo, QUERY_LIMIT_MS } from '../connect.ts';
import { accounts } from './collections.ts';
import { type Taken, takenBy } from './taken.ts';

/**
 * Stores an account that comes from elsewhere; nobody is signed in by that. `there already`: the account of this e-mail has
 * this legacy id, so an earlier import brought it, and what became of it since stays.
 */
export async function importAccount(mongo: Mongo, account: Account): Promise<'inserted' | 'there already' | Taken> {
  try {
    await accounts(mongo).insertOne(account, { maxTimeMS: QUERY_LIMIT_MS });
    return 'inserted';
  } catch (error) {
    const taken = await takenBy(mongo, error, account);
    if (taken !== 'email taken') return taken;
    const holder = await accounts(mongo).findOne(
      { email: account.email },
      { projection: { legacyId: 1 }, maxTimeMS: QUERY_LIMIT_MS },
    );
    return holder?.legacyId === account.legacyId ? 'there already' : 'email taken';
  }
}
