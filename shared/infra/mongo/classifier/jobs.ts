import type { ClientSession } from 'mongodb';
import { readIn } from '#infra/mongo/causal-read.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { guardedUpdate, literal, wasAccepted } from '#infra/mongo/guarded-update.ts';
import type { CommandOf } from '#infra/mongo/mailbox/commands.ts';
import { postCommandIn } from '#infra/mongo/mailbox/mailbox.ts';
import { FRONT_DOOR_BUDGET_MS, inTransaction } from '#infra/mongo/transaction.ts';
import type { JobRound } from '#shared/classifier/commands.ts';
import type { JobSelection, JobSlots, JobStatus } from '#shared/classifier/job.ts';
import type { NewJob } from '#shared/classifier/new-job.ts';
import { aiJobBatches, aiJobSelections, aiJobs, type JobRow } from './collections.ts';

const OPTIONS = { maxTimeMS: QUERY_LIMIT_MS };

/** The owner of a job. A job is returned to this actor of this organization only. */
export interface JobOwner {
  actorId: string;
  organizationId: string;
}

function owns(owner: JobOwner, job: JobOwner): boolean {
  return job.actorId === owner.actorId && job.organizationId === owner.organizationId;
}

/** Returns the check of the owner as conditions of a guarded update. */
function isOwners(owner: JobOwner) {
  return [{ $eq: ['$actorId', literal(owner.actorId)] }, { $eq: ['$organizationId', literal(owner.organizationId)] }];
}

/** Returns the job of any owner, or null. */
export function findJob(mongo: Mongo, id: string, session?: ClientSession): Promise<JobRow | null> {
  return aiJobs(mongo).findOne({ _id: id }, { ...readIn(session), ...OPTIONS });
}

/** Returns the job if it belongs to this owner, otherwise null. */
export async function findOwnJob(mongo: Mongo, id: string, owner: JobOwner): Promise<JobRow | null> {
  const job = await findJob(mongo, id);
  return job !== null && owns(owner, job) ? job : null;
}

/** Returns the PENDING or RUNNING job of this key, or null. At most one exists. */
export function findOpenJob(mongo: Mongo, openKey: string): Promise<JobRow | null> {
  return aiJobs(mongo).findOne({ openKey, open: true }, { hint: 'open_key', ...OPTIONS });
}

/** Returns the selections of these jobs by job id. A selection is stored with its job and never changed. */
export async function findSelections(mongo: Mongo, jobIds: readonly string[]): Promise<Map<string, JobSelection>> {
  const found = await aiJobSelections(mongo)
    .find({ _id: { $in: [...jobIds] } }, OPTIONS)
    .toArray();
  return new Map(found.map((selection) => [selection._id, selection]));
}

/** Returns the questions and filters of a job. Throws if the job has none. */
export async function findSelection(mongo: Mongo, jobId: string, session?: ClientSession): Promise<JobSelection> {
  const selection = await aiJobSelections(mongo).findOne({ _id: jobId }, { ...readIn(session), ...OPTIONS });
  if (selection === null) throw new Error(`job ${jobId} has no selection`);
  return selection;
}

interface WantedJobs extends JobOwner {
  /** null: any status. */
  status: JobStatus | null;
  limit: number;
  offset: number;
}

/** Returns a page of this owner's jobs, newest first, and their total number. */
export async function listJobs(
  mongo: Mongo,
  { actorId, organizationId, status, limit, offset }: WantedJobs,
): Promise<{ jobs: JobRow[]; total: number }> {
  const filter = { organizationId, actorId, ...(status === null ? {} : { status }) };
  const options = { hint: status === null ? 'of_owner' : 'of_owner_by_status', ...OPTIONS };
  const [jobs, total] = await Promise.all([
    aiJobs(mongo)
      .find(filter, { ...options, sort: { createdAt: -1, _id: -1 }, skip: offset, limit })
      .toArray(),
    aiJobs(mongo).countDocuments(filter, options),
  ]);
  return { jobs, total };
}

interface JobSummary {
  /** Number of jobs by status, over all organizations. A status without jobs has no entry. */
  counts: Partial<Record<JobStatus, number>>;
  /** PENDING and RUNNING jobs, oldest first. */
  open: JobRow[];
  /** FAILED jobs, newest first. */
  failures: JobRow[];
}

/** Returns the number of jobs by status, the oldest open jobs and the newest failures, each up to its limit. */
export async function summarizeJobs(mongo: Mongo, limits: { open: number; failures: number }): Promise<JobSummary> {
  const [counted, open, failures] = await Promise.all([
    aiJobs(mongo)
      .aggregate<{ _id: JobStatus; count: number }>([{ $group: { _id: '$status', count: { $sum: 1 } } }], {
        hint: 'by_status',
        ...OPTIONS,
      })
      .toArray(),
    aiJobs(mongo)
      .find({ open: true }, { hint: 'open_jobs', sort: { _id: 1 }, limit: limits.open, ...OPTIONS })
      .toArray(),
    aiJobs(mongo)
      .find({ status: 'FAILED' }, { hint: 'by_status', sort: { finishedAt: -1 }, limit: limits.failures, ...OPTIONS })
      .toArray(),
  ]);
  return { counts: Object.fromEntries(counted.map(({ _id, count }) => [_id, count])), open, failures };
}

/** Returns the next PENDING and RUNNING jobs of all organizations, by id after `afterId`. */
export function openJobsAfter(
  mongo: Mongo,
  { afterId, limit, session }: { afterId: string; limit: number; session: ClientSession },
): Promise<JobRow[]> {
  const options = { ...readIn(session), hint: 'open_jobs', sort: { _id: 1 }, limit, ...OPTIONS } as const;
  return aiJobs(mongo)
    .find({ open: true, _id: { $gt: afterId } }, options)
    .toArray();
}

/**
 * Stores a job with its questions and the command that runs it, all or nothing. `command` is null for a job that has failed
 * already. `raced`: an equal job is open or another open job has one of the slots, and nothing was written.
 */
export async function insertJob(
  mongo: Mongo,
  { job, selection, batches }: NewJob,
  command: CommandOf<'classifier'> | null,
): Promise<{ kind: 'inserted' } | { kind: 'raced' }> {
  try {
    await inTransaction(mongo, FRONT_DOOR_BUDGET_MS, async (session) => {
      // Insert the job first, so that a concurrent equal job fails before its questions are written.
      await aiJobs(mongo).insertOne({ ...job }, { session });
      await aiJobSelections(mongo).insertOne({ ...selection }, { session });
      await aiJobBatches(mongo).insertMany(
        batches.map((batch) => ({ ...batch })),
        { session },
      );
      if (command !== null) await postCommandIn(mongo, session, command);
    });
    return { kind: 'inserted' };
  } catch (error) {
    if (isDuplicateKey(error)) return { kind: 'raced' };
    throw error;
  }
}

/** The job as it is afterwards. `finished`: the job had ended before. `unknown`: this owner has no such job. */
type Cancelled = { kind: 'cancelled'; job: JobRow } | { kind: 'finished'; job: JobRow } | { kind: 'unknown' };

/** Cancels a job of this owner that is PENDING or RUNNING. An ended job stays unchanged. */
export async function cancelJob(mongo: Mongo, id: string, owner: JobOwner): Promise<Cancelled> {
  const update = guardedUpdate([...isOwners(owner), { $in: ['$status', ['PENDING', 'RUNNING']] }], {
    status: 'CANCELLED',
    open: false,
    finishedAt: '$$NOW',
    updatedAt: '$$NOW',
    revision: { $add: ['$revision', 1] },
  });
  const job = await aiJobs(mongo).findOneAndUpdate({ _id: id }, update.pipeline, {
    returnDocument: 'after',
    ...OPTIONS,
  });
  if (job === null || !owns(owner, job)) return { kind: 'unknown' };
  return { kind: wasAccepted(update, job) ? 'cancelled' : 'finished', job };
}

/**
 * Result of a retry. `unknown`: this owner has no such job. `conflict`: the job is not FAILED or CANCELLED. `raced`: an equal job
 * is open or another open job has one of the slots.
 */
type Retried =
  | { kind: 'retried'; job: JobRow; command: CommandOf<'classifier'> }
  | { kind: 'unknown' }
  | { kind: 'conflict' }
  | { kind: 'raced' };

/**
 * Restarts a job in a new round with these slots and posts the command that runs it, both or neither. Outcomes of earlier rounds
 * stay stored and no longer count.
 */
export async function retryJob(
  mongo: Mongo,
  id: string,
  owner: JobOwner,
  slots: JobSlots,
  commandOf: (at: JobRound) => CommandOf<'classifier'>,
): Promise<Retried> {
  const nothing = { succeeded: 0, failed: 0, batchesDone: 0 };
  try {
    return await inTransaction<Retried>(mongo, FRONT_DOOR_BUDGET_MS, async (session) => {
      const update = guardedUpdate([...isOwners(owner), { $in: ['$status', ['FAILED', 'CANCELLED']] }], {
        status: 'PENDING',
        open: true,
        slotted: true,
        actorSlot: slots.actorSlot,
        organizationSlot: slots.organizationSlot,
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
        ...OPTIONS,
        session,
      });
      if (job === null || !owns(owner, job)) return { kind: 'unknown' };
      if (!wasAccepted(update, job)) return { kind: 'conflict' };
      const command = commandOf({ jobId: id, round: job.round });
      await postCommandIn(mongo, session, command);
      return { kind: 'retried', job, command };
    });
  } catch (error) {
    if (isDuplicateKey(error)) return { kind: 'raced' };
    throw error;
  }
}
