import type { ClientSession } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import { type AccountLine, type OperatorAct, writeAudit } from '#infra/mongo/operator-audit.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';

const BUDGET_MS = 10_000;

/**
 * What an operator does by hand, and the line in the audit that says so, in one transaction. `work` gives the line beside its
 * result, or a null line: then nothing was done and there is nothing to say.
 */
export async function actAsOperator<Result>(
  mongo: Mongo,
  act: OperatorAct,
  work: (session: ClientSession) => Promise<{ result: Result; line: AccountLine | null }>,
): Promise<Result> {
  return inTransaction(mongo, BUDGET_MS, async (session) => {
    const { result, line } = await work(session);
    if (line !== null) await writeAudit(mongo, act, line, session);
    return result;
  });
}
