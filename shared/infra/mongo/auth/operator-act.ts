import type { ClientSession } from 'mongodb';
import { newId } from '../../../kernel/ids.ts';
import type { Mongo } from '../connect.ts';
import { OPERATOR_AUDIT } from '../mailbox/dead-letters.ts';
import { inTransaction } from '../transaction.ts';

/** Who acts, and why; `now` is MongoDB's time (Unix milliseconds). */
export interface OperatorAct {
  operator: string;
  reason: string;
  now: number;
}

export interface AuditLine {
  action: string;
  /** Id of an account, or of a throttle where there is none; of an import, its file. No address: the audit is kept for ever. */
  subject: string;
  detail: Readonly<Record<string, string | number | null>>;
}

const BUDGET_MS = 10_000;

/**
 * What an operator does by hand, and the line in the audit that says so, in one transaction. `work` gives the line beside its
 * result, or a null line: then nothing was done and there is nothing to say.
 */
export async function actAsOperator<Result>(
  mongo: Mongo,
  act: OperatorAct,
  work: (session: ClientSession) => Promise<{ result: Result; line: AuditLine | null }>,
): Promise<Result> {
  return inTransaction(mongo, BUDGET_MS, async (session) => {
    const { result, line } = await work(session);
    if (line !== null) await writeAudit(mongo, act, line, session);
    return result;
  });
}

/** One line of the audit, in the caller's transaction or by itself. */
export async function writeAudit(
  mongo: Mongo,
  act: OperatorAct,
  line: AuditLine,
  session?: ClientSession,
): Promise<void> {
  const { operator, reason, now } = act;
  await mongo.db
    .collection<{ _id: string }>(OPERATOR_AUDIT)
    .insertOne(
      { _id: newId(now), ...line, ...{ operator, reason, at: new Date(now) } },
      session === undefined ? {} : { session },
    );
}
