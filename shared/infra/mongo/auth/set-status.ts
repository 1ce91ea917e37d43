import type { Mongo } from '#infra/mongo/connect.ts';
import { newStamp } from '#infra/mongo/guarded-update.ts';
import type { OperatorAct } from '#infra/mongo/operator-audit.ts';
import type { AccountStatus } from '#shared/auth/account.ts';
import { accounts } from './collections.ts';
import { endOtherSessions } from './end-other-sessions.ts';
import { actAsOperator } from './operator-act.ts';
import { noteSecurityEvent } from './security-events.ts';

export type StatusChange = { ended: number } | 'unchanged' | 'deleted';

/**
 * An operator changes an account's status. A suspended one keeps its sessions, which are refused until it is active again; DELETED ends them
 * in the same commit, and a login that is being stored meanwhile writes the same account, so it comes before and is ended, or after
 * and is refused. `unchanged`: it is so already, or there
 * is no such account. `deleted`: DELETED is for good.
 */
export async function setStatus(
  mongo: Mongo,
  wanted: { accountId: string; status: AccountStatus },
  act: OperatorAct,
): Promise<StatusChange> {
  const { accountId, status } = wanted;
  return actAsOperator<StatusChange>(mongo, act, async (session) => {
    const before = await accounts(mongo).findOne({ _id: accountId }, { session, projection: { status: 1 } });
    if (before === null || before.status === status) return { result: 'unchanged', line: null };
    if (before.status === 'DELETED') return { result: 'deleted', line: null };
    await accounts(mongo).updateOne(
      { _id: accountId },
      { $set: { status, stamp: newStamp() }, $currentDate: { updatedAt: true } },
      { session },
    );
    const all = { accountId, keep: null, reason: 'OPERATOR' } as const;
    const ended = status !== 'DELETED' ? 0 : await endOtherSessions(mongo, all, session);
    const detail = { from: before.status, to: status, ended };
    const event = { accountId, sessionId: null, type: 'STATUS_CHANGED', metadata: detail } as const;
    await noteSecurityEvent(mongo, event, act.now, session);
    return { result: { ended }, line: { action: 'account.status', subject: accountId, detail } };
  });
}
