import { isDeepStrictEqual } from 'node:util';
import type { Progress } from '#scripts/progress.ts';
import { type Caller, dataOf, type Gateway } from '#scripts/sandbox/gateway.ts';
import type { BankStandIn } from '#scripts/sandbox/neighbours/question-bank.ts';
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
import type { ClassificationFacts } from './report.ts';
import { asTeacher, type DemoDeps } from './sitting.ts';

const PATH = '/v1/ai-classifier/jobs';
/** The fields that the job classifies. */
const FIELDS = ['topic', 'difficulty'] as const;
/** Questions in a batch of the classifier. */
const BATCH = 5;

/**
 * Classifies the paper as a teacher and follows the job live. `bank` is the question bank that the cluster must have called;
 * null if the cluster calls another one.
 */
export async function classifyPaper(
  deps: DemoDeps,
  progress: Progress,
  questions: readonly StartQuestion[],
  bank: BankStandIn | null,
): Promise<ClassificationFacts> {
  const owner = asTeacher();
  const questionIds = questions.map(({ questionId }) => questionId);
  // The exam id makes this job unique: an interrupted earlier demo may have left an equal job open, which would be returned.
  const body: CreateJobRequest = { questionIds, fields: [...FIELDS], filters: { examId: deps.examId } };
  progress.begin('classify the paper', questionIds.length);
  const reply = await deps.gateway.send({ name: 'classify', method: 'POST', path: PATH, caller: owner, body });
  const { job, created } = dataOf<CreateJobReply>('classify', reply, 200, 201);
  // If a repeated request finds the job open, an earlier sending may have created it.
  if (!created && reply.sentTimes === 1) deps.complain(`job ${job.id} was open before its first request`);
  const followed = await followJob(deps.gateway, { owner, jobId: job.id }, ({ progress: { processed } }) => {
    progress.reach(processed);
  });
  followed.faults.forEach(deps.complain);
  const hasBank = bank !== null;
  const classified = followed.job === null ? 0 : await verifyJob(deps, followed.job, questionIds, { hasBank });
  const asked = bank === null ? null : bank.questionsAsked();
  if (asked !== null && asked < questionIds.length) deps.complain(`the question bank returned only ${asked} questions`);
  progress.end(`${classified} of ${questionIds.length}, ${followed.updates} live updates`);
  return { questions: questionIds.length, classified, updates: followed.updates, asked };
}

/** Events that the stream of a classification job has sent. */
export interface FollowedJob {
  /** Final state from the stream; null if the stream never sent it. */
  job: Job | null;
  /** Number of states received: the snapshot and each later change. */
  updates: number;
  /** Faults: a revision or progress that decreases, or a job that does not end. */
  faults: string[];
}

/**
 * Longest wait for the next state, before the job runs and while it runs. A worker polls each second. A model needs time for five
 * questions and is called once more after an unreadable answer.
 */
const FIRST_MS = 20_000;
const NEXT_MS = 180_000;

/** Follows a job until it is finished or no new state arrives in time. Calls `show` with each state. */
export async function followJob(
  gateway: Pick<Gateway, 'url' | 'identityOf'>,
  { owner, jobId }: { owner: Caller; jobId: string },
  show: (job: Job) => void,
): Promise<FollowedJob> {
  const over = Promise.withResolvers<void>();
  const followed: FollowedJob = { job: null, updates: 0, faults: [] };
  let last: Job | null = null;
  let timer = setTimeout(giveUp, FIRST_MS);

  function giveUp(): void {
    const state = last?.status ?? `unknown: ${source.trouble()}`;
    followed.faults.push(`job ${jobId} does not end, its state is ${state}; is a classifier worker running?`);
    over.resolve();
  }

  const source = openEventSource(gateway, { owner, path: `/v1/ai-classifier/jobs/${jobId}/events` }, (event, data) => {
    if (event !== 'snapshot' && event !== 'job.updated') return;
    const { job } = data as { job: Job };
    followed.faults.push(...setbacks(last, job));
    last = job;
    followed.updates += 1;
    show(job);
    clearTimeout(timer);
    if (isFinished(job)) {
      followed.job = job;
      over.resolve();
    } else timer = setTimeout(giveUp, job.status === 'PENDING' ? FIRST_MS : NEXT_MS);
  });
  await over.promise;
  clearTimeout(timer);
  await source.close();
  return followed;
}

function isFinished({ status }: Job): boolean {
  return status !== 'PENDING' && status !== 'RUNNING';
}

/** Returns the faults between two states: revision and progress never decrease, and one revision has one progress. */
function setbacks(before: Job | null, now: Job): string[] {
  if (before === null) return [];
  const faults: string[] = [];
  if (now.revision < before.revision) faults.push(`revision ${now.revision} was received after ${before.revision}`);
  if (now.revision === before.revision && !isDeepStrictEqual(now.progress, before.progress)) {
    faults.push(`revision ${now.revision} was received with two states`);
  }
  if (now.progress.processed < before.progress.processed) {
    faults.push(`${now.progress.processed} processed questions were received after ${before.progress.processed}`);
  }
  return faults;
}

/**
 * Checks a finished job: no errors, one item for each question in the order of the request, and the stream's last state equal to the
 * stored job. The job has the stored questions if it has any; a cluster without a question bank stores none. Returns the number of
 * classified questions.
 */
export async function verifyJob(
  deps: DemoDeps,
  streamed: Job,
  questionIds: readonly string[],
  { hasBank }: { hasBank: boolean },
): Promise<number> {
  const complain = (fault: string) => deps.complain(`job ${streamed.id}: ${fault}`);
  const { job } = await read<JobReply>(deps, 'job', `${PATH}/${streamed.id}`);
  const errors = await read<JobErrors>(deps, 'job errors', `${PATH}/${streamed.id}/errors`);
  // A stream leaves out the stored questions, which the job shows.
  const { questionContext, ...scope } = job.scope;
  if (!isDeepStrictEqual({ ...job, scope }, streamed))
    complain('the stored job differs from the last state of the stream');
  const hasNone = (questionContext ?? null) === null && !hasBank;
  if (!hasNone && questionContext?.length !== questionIds.length) complain('lacks stored questions');
  if (job.status !== 'COMPLETED') complain(`is ${job.status} ${job.error?.code ?? ''}`.trim());
  if (errors.total !== 0) complain(`has errors for ${errors.total} questions`);
  if (job.result?.errorCount !== errors.total) complain(`counts ${job.result?.errorCount} errors of ${errors.total}`);
  for (const { questionId, code } of errors.items) complain(`${questionId}: ${code}`);
  progressFaults(job, questionIds.length).forEach(complain);
  const items = job.result?.items ?? [];
  const ids = items.map(({ questionId }) => questionId);
  if (!isDeepStrictEqual(ids, questionIds))
    complain(`has ${ids.length} items, expected one for each question, in order`);
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

/** Checks an item: exactly the requested fields, each a text with a confidence from 0 to 1, and not accepted. */
function itemFaults({ questionId, suggestions, accepted }: ClassifiedItem): string[] {
  const fields = Object.entries(suggestions as Record<string, { value?: unknown; confidence?: unknown }>);
  const isAsked = isDeepStrictEqual(fields.map(([field]) => field).sort(), [...FIELDS].sort());
  const isComplete = ([, { value, confidence }]: (typeof fields)[number]) =>
    typeof value === 'string' && value !== '' && typeof confidence === 'number' && confidence >= 0 && confidence <= 1;
  return [
    ...(isAsked && fields.every(isComplete) ? [] : [`${questionId} is classified as ${JSON.stringify(suggestions)}`]),
    ...(accepted ? [`${questionId} was accepted, although the job only suggests`] : []),
  ];
}

async function read<Data>({ gateway }: DemoDeps, name: string, path: string): Promise<Data> {
  return dataOf<Data>(name, await gateway.send({ name, method: 'GET', path, caller: asTeacher() }), 200);
}
