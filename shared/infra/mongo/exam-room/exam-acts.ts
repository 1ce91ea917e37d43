import type { ClientSession, FindCursor } from 'mongodb';
import { type ExamActRow, examActs } from '#infra/mongo/attempt/collections.ts';
import { inCausalOrder, readIn } from '#infra/mongo/causal-read.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import type { CommandOf } from '#infra/mongo/mailbox/commands.ts';
import { postCommandIn, readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { FRONT_DOOR_BUDGET_MS, inTransactionOf } from '#infra/mongo/transaction.ts';

/** Passes after which a repeat throws. A further pass means that the first command was rejected a week ago and expires now. */
const MAX_PASSES = 5;

/**
 * Stores the command of an act with the row of its content, which `also` inserts. If the key of the caller has made a command before, returns that one, however it
 * has ended.
 */
export function storeExamAct(
  mongo: Mongo,
  command: CommandOf<'examroom'>,
  also: (session: ClientSession) => Promise<void>,
): Promise<CommandOf<'examroom'>> {
  return inCausalOrder(mongo, async (session) => {
    for (let pass = 1; ; pass++) {
      try {
        await inTransactionOf(mongo, session, FRONT_DOOR_BUDGET_MS, async () => {
          await postCommandIn(mongo, session, command);
          await also(session);
        });
        return command;
      } catch (error) {
        if (!isDuplicateKey(error) || pass === MAX_PASSES) throw error;
      }
      const earlier = await readCommand(mongo, command, session);
      if (earlier !== null) return earlier;
    }
  });
}

/** Inserts the row of an act on an exam, in the transaction of its command. */
export async function insertExamAct(mongo: Mongo, row: ExamActRow, session: ClientSession): Promise<void> {
  await examActs(mongo).insertOne(row, { session });
}

/** Returns the row of an act, or null. */
export function findExamAct(
  mongo: Mongo,
  { _id, examId }: Pick<ExamActRow, '_id' | 'examId'>,
  session: ClientSession,
): Promise<ExamActRow | null> {
  return examActs(mongo).findOne({ _id, examId }, readIn(session));
}

/** Adds to the counts of an act, in the transaction of a step: the attempts that it has changed, and those that it has met. */
export async function countMet(
  mongo: Mongo,
  { _id, examId }: Pick<ExamActRow, '_id' | 'examId'>,
  met: Pick<ExamActRow, 'updated' | 'sitting'>,
  session: ClientSession,
): Promise<void> {
  await examActs(mongo).updateOne({ _id, examId }, { $inc: met }, { session });
}

/** Returns the grants of extra time of an exam, newest first. A cursor, because each may name thousands of students. */
export function timeGrants(mongo: Mongo, examId: string): FindCursor<ExamActRow> {
  return examActs(mongo).find(
    { examId, kind: 'EXTRA_TIME' },
    { sort: { at: -1, _id: -1 }, batchSize: 20, maxTimeMS: QUERY_LIMIT_MS },
  );
}
