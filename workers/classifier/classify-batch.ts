import type { JobRow } from '#infra/mongo/classifier/collections.ts';
import type { FinishedBatch } from '#infra/mongo/classifier/job-round.ts';
import { roundKey } from '#shared/classifier/commands.ts';
import type { BatchOutcome, JobBatch, QuestionError } from '#shared/classifier/job.ts';
import { contextOf } from '#shared/classifier/new-job.ts';
import { UNKNOWN_QUESTION } from '#shared/classifier/tasks/classify.ts';
import { type Models, type TaskRequest, taskRequest } from '#shared/classifier/tasks/envelope.ts';
import { ProviderFailure } from '#shared/classifier/tasks/task.ts';
import { beginningOf } from '#shared/kernel/text.ts';

const MAX_MESSAGE = 500;

/**
 * Classifies one batch. Questions that the bank does not know are not sent to the model; they become errors. If the provider refuses
 * the call for good, every question that was sent becomes an error.
 * @throws ProviderFailure that may pass, or the signal's reason
 */
export async function classifyBatch(
  models: Models,
  job: JobRow,
  batch: JobBatch,
  signal: AbortSignal,
): Promise<BatchOutcome> {
  const questions = questionsOf(job, batch);
  const known = questions === null ? null : new Set(questions.map(({ id }) => id));
  const questionIds = batch.questionIds.filter((id) => known?.has(id) ?? true);
  const asked = questionIds.length === 0 ? NO_CALL : await ask(models, job, { batch, questionIds, questions }, signal);
  const unknown = batch.questionIds
    .filter((id) => !questionIds.includes(id))
    .map((questionId) => ({ questionId, ...UNKNOWN_QUESTION }));
  const order = new Map(batch.questionIds.map((id, at) => [id, at]));
  const errors = [...asked.errors, ...unknown].sort(
    (a, b) => (order.get(a.questionId) ?? 0) - (order.get(b.questionId) ?? 0),
  );
  return { ...asked, errors };
}

const NO_CALL: BatchOutcome = { items: [], errors: [], usage: null };

interface Asked {
  batch: JobBatch;
  questionIds: readonly string[];
  questions: readonly { id: string }[] | null;
}

/** Calls the model with the request envelope that previews use, and returns its result as a batch outcome. */
async function ask(models: Models, job: JobRow, asked: Asked, signal: AbortSignal): Promise<BatchOutcome> {
  try {
    const { classify, usage } = await models.perform(requestOf(job, asked), signal);
    return { ...classify, usage };
  } catch (error) {
    if (!(error instanceof ProviderFailure) || error.nature !== 'refused') throw error;
    return { items: [], errors: errorsOf(asked.questionIds, error), usage: null };
  }
}

function requestOf(job: JobRow, { batch, questionIds, questions }: Asked): TaskRequest<'classify'> {
  const { fields, overwrite, mode, threshold, organizationId, actorId } = job;
  const known = questions === null ? {} : { questions: [...questions] };
  return taskRequest(
    'classify',
    { questionIds: [...questionIds], fields, overwrite, mode, threshold, ...known },
    {
      taskId: batch._id,
      idempotencyKey: `${batch._id}:${job.round}`,
      cancellationKey: roundKey({ jobId: job._id, round: job.round }),
      organizationId,
      actorId,
      requestId: null,
      jobId: job._id,
      batchIndex: batch.index,
    },
  );
}

type BatchFailure = Pick<QuestionError, 'code' | 'message'>;

/** Returns a batch that is given up: each of its questions ends in the same failure. */
export function allFailed(
  { index, questionIds }: Pick<JobBatch, 'index' | 'questionIds'>,
  failure: BatchFailure,
): FinishedBatch {
  return { index, outcome: { items: [], errors: errorsOf(questionIds, failure), usage: null } };
}

function errorsOf(questionIds: readonly string[], failure: BatchFailure): BatchOutcome['errors'] {
  const message = beginningOf(failure.message, MAX_MESSAGE);
  return questionIds.map((questionId) => ({ questionId, code: failure.code, message }));
}

/** Returns the batch's stored questions, or null if the job has ids only (no bank is configured). Throws if they are missing. */
function questionsOf(job: JobRow, { _id, contextText }: JobBatch): { id: string }[] | null {
  if (job.context === 'NONE') return null;
  if (contextText === null) throw new Error(`batch ${_id} has no questions`);
  return contextOf(contextText);
}
