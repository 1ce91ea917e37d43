import { randomInt } from 'node:crypto';
import { generations } from '#infra/mongo/classifier/collections.ts';
import { openGeneration } from '#infra/mongo/classifier/generation-epochs.ts';
import { addHold } from '#infra/mongo/classifier/generation-holds.ts';
import { storeReplay } from '#infra/mongo/classifier/generations.ts';
import { batchOutcomes } from '#infra/mongo/classifier/job-batches.ts';
import { findJob, insertJob } from '#infra/mongo/classifier/jobs.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { type CommandOf, newCommand } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { roundOrder, settlementOrder } from '#shared/classifier/commands.ts';
import { chargeOf, estimateOf } from '#shared/classifier/generation.ts';
import type { JobRequest, JobSlots } from '#shared/classifier/job.ts';
import { errorsOfRound, itemsOfRound } from '#shared/classifier/job-view.ts';
import { newJob } from '#shared/classifier/new-job.ts';
import type { TaskResult } from '#shared/classifier/tasks/envelope.ts';
import type { Command } from '#shared/kernel/command.ts';
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

function sampleResult(previewId: string): TaskResult<'generate'> {
  const essay = { type: 'ESSAY' as const, content: 'Sông', contentText: 'Sông', options: [], answerKey: {} };
  const question = { ...essay, explanation: 'Nước', difficulty: 'easy' };
  return {
    taskId: previewId,
    kind: 'generate',
    provider: 'mock',
    model: 'mock-1',
    finishedAt: new Date().toISOString(),
    usage: { inputTokens: 10, outputTokens: 20 },
    generate: { questions: ['q1', 'q2'].map((tempId) => ({ tempId, ...question })) },
  };
}

/** Stores an unpaid generation that has an answer and no holder. Returns the command that settles it, due one second ago by default. */
export async function postSettlement(
  mongo: Mongo,
  options: { organizationId?: string; maxAttempts?: number; runAt?: number } = {},
): Promise<Command> {
  const now = Date.now();
  const _id = newId(now);
  const { organizationId = `org-${_id}`, maxAttempts = 10, runAt = now - 1_000 } = options;
  const actor = { id: 'teacher-1', role: 'TEACHER' };
  const opened = await openGeneration(mongo, { _id, key: _id, epoch: 1, organizationId, actor, now, leaseMs: 60_000 });
  if (opened.kind !== 'held') throw new Error('a generation with a new id exists already');
  const { held } = opened;
  const leaseMs = 60_000;
  await addHold(mongo, { _id, organizationId, fence: held.fence }, { ...estimateOf(2), leaseMs });
  const result = sampleResult(_id);
  const charge = chargeOf({ asked: 2, returned: 2, usage: result.usage });
  await storeReplay(mongo, held, { result: JSON.stringify(result), charge, now });
  const key = settlementOrder(held.row).key;
  await mailboxOf(mongo, 'settlement').updateOne(
    { key, live: true },
    { $set: { maxAttempts, nextRunAt: new Date(runAt) } },
  );
  return (await mailboxOf(mongo, 'settlement').findOne({ key, live: true })) as Command;
}

/** Expires the leases of all unsettled generations and of their settlement commands, as time would. */
export async function expireGenerations(mongo: Mongo): Promise<void> {
  const past = new Date(0);
  await generations(mongo).updateMany({ state: { $ne: 'SETTLED' } }, { $set: { leaseUntil: past } });
  const leased = { queue: 'settlement', lockedUntil: { $gt: past } } as const;
  await mailboxOf(mongo, 'settlement').updateMany(leased, { $set: { lockedUntil: past, nextRunAt: past } });
}

/** Ends the replay of a generation, as a day would: an equal request starts a new generation. */
export async function ageGeneration(mongo: Mongo, previewId: string): Promise<void> {
  await generations(mongo).updateOne({ _id: previewId }, { $set: { replayUntil: new Date(Date.now() - 1) } });
}

export async function generationOf(mongo: Mongo, { subject }: Pick<Command, 'subject'>) {
  const row = await generations(mongo).findOne({ _id: subject });
  if (row === null) throw new Error(`generation ${subject} is gone`);
  return row;
}
