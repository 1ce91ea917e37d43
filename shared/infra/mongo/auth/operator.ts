import type { ClientSession } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import { newStamp } from '#infra/mongo/guarded-update.ts';
import { actAsOperator, type OperatorAct } from '#infra/mongo/operator-audit.ts';
import type { Account, AccountStatus, StoredPassword } from '#shared/auth/account.ts';
import { accounts, throttles } from './collections.ts';
import { clearPairs } from './known-pairs.ts';
import { endOtherSessions, noteSecurityEvent } from './sessions.ts';
import { throttleKey } from './throttle.ts';

/** Changes that an operator makes to an account by hand. Each one commits together with its line in the audit. */

/**
 * Sets the password of an account, ends all its sessions and device tokens and clears its login throttle, in one commit. Returns the
 * number of ended sessions.
 */
export async function setPassword(
  mongo: Mongo,
  account: Pick<Account, '_id' | 'email'>,
  password: StoredPassword,
  act: OperatorAct,
): Promise<number> {
  const accountId = account._id;
  return actAsOperator(mongo, act, async (session) => {
    await change(mongo, accountId, { password, deviceEpoch: newStamp() }, session);
    const ended = await endOtherSessions(mongo, { accountId, keep: null, reason: 'OPERATOR' }, session);
    const key = throttleKey(account.email);
    await throttles(mongo).deleteOne({ _id: key }, { session });
    await clearPairs(mongo, key, session);
    const detail = { ended };
    const event = { accountId, sessionId: null, type: 'PASSWORD_SET', metadata: detail } as const;
    await noteSecurityEvent(mongo, event, act.now, session);
    return { result: ended, line: { action: 'account.set-password', subject: accountId, detail } };
  });
}

type StatusChange = { kind: 'changed'; ended: number } | { kind: 'unchanged' } | { kind: 'deleted' };

/**
 * Changes the status of an account. A suspended account keeps its sessions, which are refused until it is ACTIVE again. DELETED
 * is final and ends the sessions in the same commit. A concurrent login writes the same account, so it commits either before and
 * is ended, or after and is refused.
 *
 * `unchanged`: the account has this status already, or does not exist. `deleted`: the account is DELETED, which cannot be undone.
 */
export async function setStatus(
  mongo: Mongo,
  wanted: { accountId: string; status: AccountStatus },
  act: OperatorAct,
): Promise<StatusChange> {
  const { accountId, status } = wanted;
  return actAsOperator<StatusChange>(mongo, act, async (session) => {
    const before = await accounts(mongo).findOne({ _id: accountId }, { session, projection: { status: 1 } });
    if (before === null || before.status === status) return { result: { kind: 'unchanged' }, line: null };
    if (before.status === 'DELETED') return { result: { kind: 'deleted' }, line: null };
    await change(mongo, accountId, { status }, session);
    const all = { accountId, keep: null, reason: 'OPERATOR' } as const;
    const ended = status !== 'DELETED' ? 0 : await endOtherSessions(mongo, all, session);
    const detail = { from: before.status, to: status, ended };
    const event = { accountId, sessionId: null, type: 'STATUS_CHANGED', metadata: detail } as const;
    await noteSecurityEvent(mongo, event, act.now, session);
    return { result: { kind: 'changed', ended }, line: { action: 'account.status', subject: accountId, detail } };
  });
}

type Promotion = { kind: 'promoted' } | { kind: 'unchanged' };

/**
 * Assigns the role ADMIN, which registration never assigns, to the account and to its membership in its default organization.
 * `unchanged`: the account has the role already, or does not exist. Access tokens from before contain the old role until they
 * expire.
 */
export async function makeAdmin(mongo: Mongo, accountId: string, act: OperatorAct): Promise<Promotion> {
  return actAsOperator<Promotion>(mongo, act, async (session) => {
    const account = await accounts(mongo).findOne({ _id: accountId }, { session });
    if (account === null || account.role === 'ADMIN') return { result: { kind: 'unchanged' }, line: null };
    const memberships = account.memberships.map((membership) =>
      membership.organizationId === account.defaultOrganizationId
        ? { ...membership, role: 'ADMIN' as const }
        : membership,
    );
    await change(mongo, accountId, { role: 'ADMIN', memberships }, session);
    const detail = { from: account.role, to: 'ADMIN' };
    const event = { accountId, sessionId: null, type: 'ROLE_CHANGED', metadata: detail } as const;
    await noteSecurityEvent(mongo, event, act.now, session);
    return { result: { kind: 'promoted' }, line: { action: 'account.make-admin', subject: accountId, detail } };
  });
}

/** Ends every live session of an account. Returns the number of ended sessions. */
export async function signOut(mongo: Mongo, accountId: string, act: OperatorAct): Promise<number> {
  return actAsOperator(mongo, act, async (session) => {
    const ended = await endOtherSessions(mongo, { accountId, keep: null, reason: 'OPERATOR' }, session);
    return { result: ended, line: { action: 'account.end-sessions', subject: accountId, detail: { ended } } };
  });
}

/**
 * Clears the login throttle of an e-mail with or without an account (`accountId` null), the counts of
 * its known pairs included. Ends the device tokens of the account, and thereby their counts. Returns
 * false if there was no account and nothing to clear.
 */
export async function unlockAccount(
  mongo: Mongo,
  wanted: { email: string; accountId: string | null },
  act: OperatorAct,
): Promise<boolean> {
  const { email, accountId } = wanted;
  const key = throttleKey(email);
  return actAsOperator(mongo, act, async (session) => {
    const row = await throttles(mongo).findOne({ _id: key }, { session });
    const pairs = await clearPairs(mongo, key, session);
    if (accountId === null && row === null && pairs === 0) return { result: false, line: null };
    await throttles(mongo).deleteOne({ _id: key }, { session });
    const ended = { deviceEpoch: newStamp(), stamp: newStamp() };
    if (accountId !== null) await accounts(mongo).updateOne({ _id: accountId }, { $set: ended }, { session });
    const detail = { tries: row?.tries ?? 0, failures: row?.failures ?? 0, pairs };
    return { result: true, line: { action: 'account.unlock', subject: accountId ?? key, detail } };
  });
}

async function change(
  mongo: Mongo,
  accountId: string,
  fields: Partial<Pick<Account, 'password' | 'deviceEpoch' | 'status' | 'role' | 'memberships'>>,
  session: ClientSession,
): Promise<void> {
  await accounts(mongo).updateOne(
    { _id: accountId },
    { $set: { ...fields, stamp: newStamp() }, $currentDate: { updatedAt: true } },
    { session },
  );
}
