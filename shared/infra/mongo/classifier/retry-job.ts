import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { guardedUpdate, literal, wasAccepted } from '#infra/mongo/guarded-update.ts';
import { postCommandIn } from '#infra/mongo/mailbox/mailbox.ts';
import { FRONT_DOOR_BUDGET_MS, inTransaction } from '#infra/mongo/transaction.ts';
import type { JobBody } from '#shared/classifier/job.ts';
import type { Command } from '#shared/kernel/command.ts';
import { aiJobs, type JobRow } from './collections.ts';
import { isOwners, type JobOwner, owns } from './job-owner.ts';

/** What became of the wish. `conflict`: the job is not FAILED or CANCELLED, or an equal one is open. */
export type Retried = { job: JobRow; commandId: string } | 'unknown' | 'conflict';

/**
 * Starts a job over in a new round, with the command that runs it, both or neither. What earlier rounds brought stays where it is and
 * counts no more.
 */
export async function retryJob(
  mongo: Mongo,
  id: string,
  owner: JobOwner,
  commandOf: (body: JobBody) => Command<JobBody, null, null>,
): Promise<Retried> {
  const nothing = { succeeded: 0, failed: 0, batchesDone: 0 };
  try {
    return await inTransaction(mongo, FRONT_DOOR_BUDGET_MS, async (session) => {
      const update = guardedUpdate([...isOwners(owner), { $in: ['$status', ['FAILED', 'CANCELLED']] }], {
        status: 'PENDING',
        open: true,
        round: { $add: ['$round', 1] },
        revision: { $add: ['$revision', 1] },
        ...Object.fromEntries(Object.entries(nothing).map(([name, none]) => [`counts.${name}`, none])),
        usage: literal({}),
        error: null,
        startedAt: null,
        finishedAt: null,
        updatedAt: '$$NOW',
      });
      const job = await aiJobs(mongo).findOneAndUpdate({ _id: id }, update.pipeline, {
        returnDocument: 'after',
        maxTimeMS: QUERY_LIMIT_MS,
        session,
      });
      if (job === null || !owns(owner, job)) return 'unknown';
      if (!wasAccepted(update, job)) return 'conflict';
      const command = commandOf({ jobId: id, round: job.round });
      await postCommandIn(mongo, session, command);
      return { job, commandId: command._id };
    });
  } catch (error) {
    if (isDuplicateKey(error, ['openKey'])) return 'conflict';
    throw error;
  }
}
