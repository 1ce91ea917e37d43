import { isDeepStrictEqual } from 'node:util';
import type { ClassifiedItem, Job, JobErrors, JobReply } from '#shared/generated/classifier.ts';
import { dataOf } from './gateway.ts';
import { asTeacher, type DemoDeps } from './sitting.ts';

/** What is asked about each question. */
export const FIELDS = ['topic', 'difficulty'] as const;

const PATH = '/v1/ai-classifier/jobs';
/** In the classifier's own batches. */
const BATCH = 5;

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
