import type { Mongo } from '#infra/mongo/connect.ts';
import { newStamp } from '#infra/mongo/guarded-update.ts';
import type { OperatorAct } from '#infra/mongo/operator-audit.ts';
import { accounts } from './collections.ts';
import { actAsOperator } from './operator-act.ts';
import { noteSecurityEvent } from './security-events.ts';

/**
 * Gives the role ADMIN, with which nobody can register, also in the membership of the account's default organization. False: it has it already,
 * or there is no such account. Access tokens of before say the old role until they expire.
 */
export async function makeAdmin(mongo: Mongo, accountId: string, act: OperatorAct): Promise<boolean> {
  return actAsOperator(mongo, act, async (session) => {
    const account = await accounts(mongo).findOne({ _id: accountId }, { session });
    if (account === null || account.role === 'ADMIN') return { result: false, line: null };
    const memberships = account.memberships.map((membership) =>
      membership.organizationId === account.defaultOrganizationId
        ? { ...membership, role: 'ADMIN' as const }
        : membership,
    );
    await accounts(mongo).updateOne(
      { _id: accountId },
      { $set: { role: 'ADMIN', memberships, stamp: newStamp() }, $currentDate: { updatedAt: true } },
      { session },
    );
    const detail = { from: account.role, to: 'ADMIN' };
    const event = { accountId, sessionId: null, type: 'ROLE_CHANGED', metadata: detail } as const;
    await noteSecurityEvent(mongo, event, act.now, session);
    return { result: true, line: { action: 'account.make-admin', subject: accountId, detail } };
  });
}
