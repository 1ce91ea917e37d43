import type { Mongo } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { postCommandIn } from '#infra/mongo/mailbox/mailbox.ts';
import { FRONT_DOOR_BUDGET_MS, inTransaction } from '#infra/mongo/transaction.ts';
import type { JobBody } from '#shared/classifier/job.ts';
import type { NewJob } from '#shared/classifier/new-job.ts';
import type { Command } from '#shared/kernel/command.ts';
import { aiJobBatches, aiJobSelections, aiJobs } from './collections.ts';

/**
 * Writes a job with its questions and the command that runs it (null: it has failed already), all or nothing. False: an equal one is
 * open, and nothing was written.
 */
export async function insertJob(
  mongo: Mongo,
  { job, selection, batches }: NewJob,
  command: Command<JobBody, null, null> | null,
): Promise<boolean> {
  try {
    await inTransaction(mongo, FRONT_DOOR_BUDGET_MS, async (session) => {
      // First: who comes second is told before a question is written.
      await aiJobs(mongo).insertOne({ ...job }, { session });
      await aiJobSelections(mongo).insertOne({ ...selection }, { session });
      await aiJobBatches(mongo).insertMany(
        batches.map((batch) => ({ ...batch })),
        { session },
      );
      if (command !== null) await postCommandIn(mongo, session, command);
    });
    return true;
  } catch (error) {
    if (isDuplicateKey(error, ['openKey'])) return false;
    throw error;
  }
}
