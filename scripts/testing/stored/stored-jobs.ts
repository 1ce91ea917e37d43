import { randomInt } from 'node:crypto';
import { batchOutcomes } from '#infra/mongo/classifier/job-batches.ts';
import { findJob, insertJob } from '#infra/mongo/classifier/jobs.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { type CommandOf, newCommand } from '#infra/mongo/mailbox/commands.ts';
import { roundOrder } from '#shared/classifier/commands.ts';
import type { JobRequest, JobSlots } from '#shared/classifier/job.ts';
import { errorsOfRound, itemsOfRound } from '#shared/classifier/job-view.ts';
import { newJob } from '#shared/classifier/new-job.ts';
import { newId } from '#shared/kernel/ids.ts';

export interface StoredJobOptions {
  /** Number of questions; default 7, which are two batches. */
  questions?: number;
  maxAttempts?: number;
  /** Unix milliseconds; default one second ago. */
  runAt?: number;
  request?: Partial<JobRequest>;
  /** Context for `newJob`; default: the contents of all questions. */
  context?: Parameters<typeof newJob>[2];
}

export function questionIds(count: number, prefix = newId()): string[] {
  return Array.from({ length: count }, (_, n) => `q-${n + 1}-of-${prefix}`);
}

function bankQuestions(ids: readonly string[]): Map<string, unknown> {
  return new Map(ids.map((id) => [id, { id, content: `Nội dung ${id}`, options: [] }]));
}

/** Returns slots that no other job has, so that a test may store as many open jobs as it needs. */
export function unlimitedSlots(): JobSlots {
  const slot = () => 1_000 + randomInt(2 ** 40);
  return { actorSlot: slot(), organizationSlot: slot() };
}

export async function postJob(mongo: Mongo, options: StoredJobOptions = {}): Promise<CommandOf<'classifier'>> {
  const { questions = 7, maxAttempts = 10, runAt = Date.now() - 1_000 } = options;
  const id = newId();
  const request: JobRequest = {
    actorId: 'teacher-1',
    organizationId: 'org-1',
    filters: {},
    questionIds: questionIds(questions, id),
    fields: ['topic', 'difficulty'],
    mode: 'AUTO',
    overwrite: false,
    threshold: 0.7,
    ...options.request,
  };
  const context = options.context ?? { kind: 'LOADED', known: bankQuestions(request.questionIds) };
  const origin = { id, now: new Date(runAt), actorRole: 'TEACHER', slots: unlimitedSlots() };
  const made = newJob(request, origin, context);
  const command = newCommand({
    ...roundOrder({ jobId: id, round: 1 }, request.organizationId),
    maxAttempts,
    now: runAt,
  });
  const inserted = await insertJob(mongo, made, command);
  if (inserted.kind === 'raced') throw new Error('an equal job is open');
  return command;
}

/** Returns 1 if the job is completed with every batch of its round once, 0 if it is not completed, NaN if a batch is missing or counted twice. */
export async function finishedOnce(mongo: Mongo, jobId: string): Promise<number> {
  const job = await findJob(mongo, jobId);
  if (job === null || job.status !== 'COMPLETED') return 0;
  const batches = await batchOutcomes(mongo, jobId);
  const [items, errors] = [itemsOfRound(job.round, batches), errorsOfRound(job.round, batches)];
  const { total, succeeded, failed, batchesTotal, batchesDone } = job.counts;
  const isWhole = batches.length === batchesTotal && batchesDone === batchesTotal && succeeded + failed === total;
  return isWhole && items.length === succeeded && errors.length === failed ? 1 : Number.NaN;
}
