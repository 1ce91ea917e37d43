import type { Mongo } from '#infra/mongo/connect.ts';
import type { OperatorAct } from '#infra/mongo/operator-audit.ts';
import { throttles } from './collections.ts';
import { actAsOperator } from './operator-act.ts';
import { throttleKey } from './throttle.ts';

/**
 * An operator forgets the failed tries of an e-mail, known or not (`accountId` null). False: there were none.
 */
export async function unlockAccount(
  mongo: Mongo,
  wanted: { email: string; accountId: string | null },
  act: OperatorAct,
): Promise<boolean> {
  const key = throttleKey(wanted.email);
  return actAsOperator(mongo, act, async (session) => {
    const row = await throttles(mongo).findOne({ _id: key }, { session });
    if (row === null) return { result: false, line: null };
    await throttles(mongo).deleteOne({ _id: key }, { session });
    const detail = { tries: row.tries, failures: row.failures };
    return { result: true, line: { action: 'account.unlock', subject: wanted.accountId ?? key, detail } };
  });
}
