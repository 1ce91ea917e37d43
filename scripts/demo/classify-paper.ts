import { isDeepStrictEqual } from 'node:util';
import type { Progress } from '#scripts/progress.ts';
import type { StartQuestion } from '#shared/generated/attempt.ts';
import type {
  ClassifiedItem,
  CreateJobReply,
  CreateJobRequest,
  Job,
  JobErrors,
  JobReply,
} from '#shared/generated/classifier.ts';
import { openEventSource } from './event-source.ts';
import { type Caller, dataOf, type Gateway } from './gateway.ts';
import type { ClassificationFacts } from './report.ts';
import { asTeacher, type DemoDeps } from './sitting.ts';
import type { StandIn } from './stand-in.ts';

const PATH = '/v1/ai-classifier/jobs';
/** What is asked about each question. */
const FIELDS = ['topic', 'difficulty'] as const;
/** In the classifier's own batches. */
const BATCH = 5;

/** A teacher has the paper classified and looks on. `bank`: where its questions must have been asked for; null = nobody need ask the demo. */
export async function classifyPaper(
  deps: DemoDeps,
  progress: Progress,
  questions: readonly StartQuestion[],
  bank: StandIn | null,
): Promise<ClassificationFacts> {
  const owner = asTeacher();
  const questionIds = questions.map(({ questionId }) => questionId);
  // Of an earlier demo that was broken off an equal job may be open, and it would be given.
  const body: CreateJobRequest = { questionIds, fields: [...FIELDS], filters: { examId: deps.examId } };
  progress.begin('classify the paper', questionIds.length);
  const reply = await deps.gateway.send({ name: 'classify', method: 'POST', path: PATH, caller: owner, body });
  const { job, created } = dataOf<CreateJobReply>('classify', reply, 200, 201);
  // Sent again because no reply came: the first sending may have made it.
  if (!created && reply.sentTimes === 1) deps.complain(`job ${job.id} was open before it was made`);
  const followed = await followJob(deps.gateway, { owner, jobId: job.id }, ({ progress: { processed } }) => {
    progress.reach(processed);
  });
  followed.faults.forEach(deps.complain);
  const classified = followed.job === null ? 0 : await verifyJob(deps, followed.job, questionIds);
  const asked = bank === null ? null : bank.questionsAsked();
  if (asked !== null && asked < questionIds.length) deps.complain(`the question bank was asked for ${asked} questions`);
  progress.end(`${classified} of ${questionIds.length}, told live ${followed.told} times`);
  return { questions: questionIds.length, classified, told: followed.told, asked };
}

/** What the stream of a classification job told. */
export interface FollowedJob {
  /** As it was told at its end; null where that was not told. */
  job: Job | null;
  /** How often it was told: the snapshot, and each change after it. */
  told: number;
  /** What should not be: a job that goes backwards, or never ends. */
  faults: string[];
}

/** A worker polls each second; a model takes its time over five questions, and asks once more where the answer was none. */
const FIRST_MS = 20_000;
const NEXT_MS = 180_000;

/** Looks on until the job is finished, or nothing new has been told for too long. `show` is given each state that is told. */
export async function followJob(
  gateway: Pick<Gateway, 'url' | 'identityOf'>,
  { owner, jobId }: { owner: Caller; jobId: string },
  show: (job: Job) => void,
): Promise<FollowedJob> {
  const over = Promise.withResolvers<void>();
  const followed: FollowedJob = { job: null, told: 0, faults: [] };
  let last: Job | null = null;
  let patience = setTimeout(giveUp, FIRST_MS);

  function giveUp(): void {
    const state = last?.status ?? `not told: ${source.trouble()}`;
    followed.faults.push(`job ${jobId} does not end, it is ${state}; is there a classifier worker?`);
    over.resolve();
  }

  const source = openEventSource(gateway, { owner, path: `/v1/ai-classifier/jobs/${jobId}/events` }, (event, data) => {
    if (event !== 'snapshot' && event !== 'job.updated') return;
    const { job } = data as { job: Job };
    followed.faults.push(...setbacks(last, job));
    last = job;
    followed.told += 1;
    show(job);
    clearTimeout(patience);
    if (isFinished(job)) {
      followed.job = job;
      over.resolve();
    } else patience = setTimeout(giveUp, job.status === 'PENDING' ? FIRST_MS : NEXT_MS);
  });
  await over.promise;
  clearTimeout(patience);
  await source.close();
  return followed;
}

function isFinished({ status }: Job): boolean {
  return status !== 'PENDING' && status !== 'RUNNING';
}

/** A job only goes on, and what is told twice under one revision is the same. */
function setbacks(before: Job | null, now: Job): string[] {
  if (before === null) return [];
  const faults: string[] = [];
  if (now.revision < before.revision) faults.push(`revision ${now.revision} was told after ${before.revision}`);
  if (now.revision === before.revision && !isDeepStrictEqual(now.progress, before.progress)) {
    faults.push(`revision ${now.revision} was told with two states`);
  }
  if (now.progress.processed < before.progress.processed) {
    faults.push(`${now.progress.processed} questions were told after ${before.progress.processed}`);
  }
  return faults;
}

/**
 * The job was finished without an error, says something of each question, once and in order, and is the same when it is read again.
 * Gives how many questions are classified.
 */
export async function verifyJob(deps: DemoDeps, told: Job, questionIds: readonly string[]): Promise<number> {
  const complain = (fault: string) => deps.complain(`job ${told.id}: ${fault}`);
  const { job } = await read<JobReply>(deps, 'job', `${PATH}/${told.id}`);
  const errors = await read<JobErrors>(deps, 'job errors', `${PATH}/${told.id}/errors`);
  if (!isDeepStrictEqual(job, told)) complain('read again it is not what was told at its end');
  if (job.status !== 'COMPLETED') complain(`is ${job.status} ${job.error?.code ?? ''}`.trim());
  if (errors.total !== 0) complain(`has errors for ${errors.total} questions`);
  if (job.result?.errorCount !== errors.total) complain(`counts ${job.result?.errorCount} errors of ${errors.total}`);
  for (const { questionId, code } of errors.items) complain(`${questionId}: ${code}`);
  progressFaults(job, questionIds.length).forEach(complain);
  const items = job.result?.items ?? [];
  const ids = items.map(({ questionId }) => questionId);
  if (!isDeepStrictEqual(ids, questionIds))
    complain(`speaks of ${ids.length} questions, and not of each once and in order`);
  items.flatMap(itemFaults).forEach(complain);
  return new Set(ids).size;
}

function progressFaults({ progress }: Job, total: number): string[] {
  const batches = Math.ceil(total / BATCH);
  const wanted: Job['progress'] = {
    total,
    processed: total,
    succeeded: total,
    failed: 0,
    batchesTotal: batches,
    batchesDone: batches,
    percent: 100,
  };
  return isDeepStrictEqual(progress, wanted) ? [] : [`its progress is ${JSON.stringify(progress)}`];
}

/** Each field that was asked for and no other, a text with a confidence; accepted is nothing where it was only to suggest. */
function itemFaults({ questionId, suggestions, accepted }: ClassifiedItem): string[] {
  const fields = Object.entries(suggestions as Record<string, { value?: unknown; confidence?: unknown }>);
  const isAsked = isDeepStrictEqual(fields.map(([field]) => field).sort(), [...FIELDS].sort());
  const isTold = ([, { value, confidence }]: (typeof fields)[number]) =>
    typeof value === 'string' && value !== '' && typeof confidence === 'number' && confidence >= 0 && confidence <= 1;
  return [
    ...(isAsked && fields.every(isTold) ? [] : [`${questionId} is classified as ${JSON.stringify(suggestions)}`]),
    ...(accepted ? [`${questionId} was accepted, and nobody asked for that`] : []),
  ];
}

async function read<Data>({ gateway }: DemoDeps, name: string, path: string): Promise<Data> {
  return dataOf<Data>(name, await gateway.send({ name, method: 'GET', path, caller: asTeacher() }), 200);
}
