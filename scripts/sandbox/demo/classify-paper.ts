import { isDeepStrictEqual } from 'node:util';
import { countRequests } from '#scripts/sandbox/gateway.ts';
import type {
  ClassifiedItem,
  Client,
  CreateJobRequest,
  Identity,
  Job,
  StartQuestion,
} from '../../../clients/typescript/src/index.ts';
import { type DemoDeps, differences, THE_TEACHER } from './sit-exam.ts';

const FIELDS = ['topic', 'difficulty'] as const;
const BATCH = 5;

/**
 * Classifies the paper as a teacher and follows the job live. `bank` is the question bank that the cluster must have called;
 * null if the cluster calls another one. Returns a line of the report.
 */
export async function classifyPaper(
  deps: DemoDeps,
  questions: readonly StartQuestion[],
  bank: { questionsAsked(): number } | null,
): Promise<string> {
  const questionIds = questions.map(({ questionId }) => questionId);
  // The exam id makes this job unique: an interrupted earlier demo may have left an equal job open, which would be returned.
  const body: CreateJobRequest = { questionIds, fields: [...FIELDS], filters: { examId: deps.examId } };
  const { progress } = deps;
  progress.begin('classify the paper', questionIds.length);
  const client = deps.gateway.client('classify');
  const requests = countRequests();
  const input = { as: THE_TEACHER, body, repeatInDoubt: true, observe: requests.observe };
  const { job, created } = await client.createJob(input);
  // If a repeated request finds the job open, an earlier one may have created it.
  if (!created && requests.count() === 1) deps.complain(`job ${job.id} was open before its first request`);
  const followed = await followJob(client, { owner: THE_TEACHER, jobId: job.id }, (seen) =>
    progress.reach(seen.progress.processed),
  );
  followed.faults.forEach(deps.complain);
  const { job: last, updates } = followed;
  const classified = last === null ? 0 : await verifyJob(deps, last, questionIds, { hasBank: bank !== null });
  const asked = bank === null ? null : bank.questionsAsked();
  if (asked !== null && asked < questionIds.length) deps.complain(`the question bank returned only ${asked} questions`);
  progress.end(`${classified} of ${questionIds.length}, ${updates} live updates`);
  const read = asked === null ? '' : `; ${asked} read from the question bank`;
  return `  classified      ${classified} of ${questionIds.length} questions, ${updates} live updates${read}`;
}

/**
 * Longest wait for the next state, before the job runs and while it runs. A worker polls each second. A model needs time for five
 * questions and is called once more after an unreadable answer.
 */
const FIRST_MS = 20_000;
const NEXT_MS = 180_000;

/** Follows a job until it is finished or no new state arrives in time. Calls `show` with each state. */
export async function followJob(
  client: Pick<Client, 'streams'>,
  { owner, jobId }: { owner: Identity; jobId: string },
  show: (job: Job) => void,
) {
  const followed = {
    /** Final state from the stream; null if the stream never sent it. */
    job: null as Job | null,
    /** Number of states received: the snapshot and each later change. */
    updates: 0,
    /** Faults: a revision or progress that decreases, or a job that does not end. */
    faults: [] as string[],
  };
  const ending = new AbortController();
  const giveUp = () => ending.abort();
  let timer = setTimeout(giveUp, FIRST_MS);
  let last: Job | null = null;
  let trouble = 'no state arrived';
  try {
    for await (const { data } of client.streams.job({ as: owner, jobId, signal: ending.signal })) {
      if (!('job' in data)) continue;
      clearTimeout(timer);
      timer = setTimeout(giveUp, data.job.status === 'PENDING' ? FIRST_MS : NEXT_MS);
      followed.faults.push(...setbacks(last, data.job));
      followed.updates += 1;
      last = data.job;
      show(last);
    }
    // The stream of a job ends by itself with the job alone.
    if (!ending.signal.aborted) followed.job = last;
  } catch (error) {
    trouble = error instanceof Error ? error.message : String(error);
  } finally {
    clearTimeout(timer);
  }
  if (followed.job === null) {
    const state = (last as Job | null)?.status ?? `unknown: ${trouble}`;
    followed.faults.push(`job ${jobId} does not end, its state is ${state}; is a classifier worker running?`);
  }
  return followed;
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
  const input = { as: THE_TEACHER, jobId: streamed.id };
  const { job } = await deps.gateway.client('job').readJob(input);
  const errors = await deps.gateway.client('job errors').listJobErrors(input);
  // A stream leaves out the stored questions, which the job shows.
  const { questionContext, ...scope } = job.scope;
  if (!isDeepStrictEqual({ ...job, scope }, streamed))
    complain('the stored job differs from the last state of the stream');
  const hasNone = (questionContext ?? null) === null && !hasBank;
  if (!hasNone && questionContext?.length !== questionIds.length) complain('lacks stored questions');
  if (errors.total !== 0) complain(`has errors for ${errors.total} questions`);
  if (job.result?.errorCount !== errors.total) complain(`counts ${job.result?.errorCount} errors of ${errors.total}`);
  for (const { questionId, code } of errors.items) complain(`${questionId}: ${code}`);
  differences('its', job, { status: 'COMPLETED', error: null, progress: whole(questionIds.length) }).forEach(complain);
  const items = job.result?.items ?? [];
  const ids = items.map(({ questionId }) => questionId);
  if (!isDeepStrictEqual(ids, questionIds))
    complain(`has ${ids.length} items, expected one for each question, in order`);
  items.flatMap(itemFaults).forEach(complain);
  return new Set(ids).size;
}

function whole(total: number): Job['progress'] {
  const batches = Math.ceil(total / BATCH);
  const counts = { total, processed: total, succeeded: total, failed: 0 };
  return { ...counts, batchesTotal: batches, batchesDone: batches, percent: 100 };
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
