import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { guardedUpdate, literal, newStamp } from '#infra/mongo/guarded-update.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import type { StoredPassword } from '#shared/auth/account.ts';
import { accounts } from './collections.ts';
import { endOtherSessions, noteSecurityEvent } from './sessions.ts';

interface PasswordChange {
  accountId: string;
  /** The stored hash against which the current password was verified. */
  from: string;
  to: StoredPassword;
  /** The session of the request, which stays open. */
  keep: string;
  now: number;
}

/**
 * Replaces the password that was verified, ends the device tokens and the other sessions (`revoked` is their number) and writes the
 * security event, all or nothing. `outdated`: the password has changed since, or the account is no longer ACTIVE.
 */
export async function changePassword(
  mongo: Mongo,
  change: PasswordChange,
  budgetMs: number,
): Promise<{ kind: 'changed'; revoked: number } | { kind: 'outdated' }> {
  const { accountId, keep } = change;
  return inTransaction(mongo, budgetMs, async (session) => {
    const { pipeline } = guardedUpdate(
      [{ $eq: ['$status', 'ACTIVE'] }, { $eq: ['$password.hash', literal(change.from)] }],
      { password: literal(change.to), deviceEpoch: literal(newStamp()), updatedAt: '$$NOW' },
    );
    const changed = await accounts(mongo).updateOne({ _id: accountId }, pipeline, { session });
    if (changed.modifiedCount !== 1) return { kind: 'outdated' };
    const revoked = await endOtherSessions(mongo, { accountId, keep, reason: 'PASSWORD' }, session);
    const event = { accountId, sessionId: keep, type: 'PASSWORD_CHANGED', metadata: { revoked } } as const;
    await noteSecurityEvent(mongo, event, change.now, session);
    return { kind: 'changed', revoked };
  });
}

/**
 * Stores the same password under a better hash. Nothing changes for the person, so sessions stay open and `updatedAt` stays.
 * `outdated`: the password was changed or its hash upgraded meanwhile.
 */
export async function upgradePassword(
  mongo: Mongo,
  accountId: string,
  from: string,
  to: StoredPassword,
): Promise<{ kind: 'upgraded' } | { kind: 'outdated' }> {
  const { pipeline } = guardedUpdate([{ $eq: ['$password.hash', literal(from)] }], { password: literal(to) });
  const upgraded = await accounts(mongo).updateOne({ _id: accountId }, pipeline, { maxTimeMS: QUERY_LIMIT_MS });
  return { kind: upgraded.modifiedCount === 1 ? 'upgraded' : 'outdated' };
}
