import type { Mongo } from '#infra/mongo/connect.ts';
import type { OperatorAct } from '#infra/mongo/operator-audit.ts';
import { endOtherSessions } from './end-other-sessions.ts';
import { actAsOperator } from './operator-act.ts';

/** An operator ends every live session of an account; gives how many. */
export async function signOut(mongo: Mongo, accountId: string, act: OperatorAct): Promise<number> {
  return actAsOperator(mongo, act, async (session) => {
    const ended = await endOtherSessions(mongo, { accountId, keep: null, reason: 'OPERATOR' }, session);
    return { result: ended, line: { action: 'account.end-sessions', subject: accountId, detail: { ended } } };
  });
}
