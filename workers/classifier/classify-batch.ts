import type { BatchOutcome } from '../../shared/classifier/classification.ts';
import { classifyTask, readClassification, UNKNOWN_QUESTION } from '../../shared/classifier/classify-task.ts';
import type { JobBatch } from '../../shared/classifier/job.ts';
import { type AskedFor, type ModelAnswer, type Models, ProviderFailure } from '../../shared/classifier/model-task.ts';
import type { JobRow } from '../../shared/infra/mongo/classifier/collections.ts';

const OPERATION = 'question-classification';
const MAX_MESSAGE = 500;

/**
 * What the model says of one batch. Questions that the bank does not know are not asked about; what the provider refuses for good leaves
 * errors.
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
  const asked = questionIds.length === 0 ? NOBODY : await ask(models, job, { batch, questionIds, questions }, signal);
  const unknown = batch.questionIds
    .filter((id) => !questionIds.includes(id))
    .map((questionId) => ({ questionId, ...UNKNOWN_QUESTION }));
  const place = new Map(batch.questionIds.map((id, at) => [id, at]));
  const errors = [...asked.errors, ...unknown].sort(
    (a, b) => (place.get(a.questionId) ?? 0) - (place.get(b.questionId) ?? 0),
  );
  return { ...asked, errors };
}

const NOBODY: BatchOutcome = { items: [], errors: [], usage: null };

interface Asked {
  batch: JobBatch;
  questionIds: readonly string[];
  questions: readonly unknown[] | null;
}

async function ask(
  models: Models,
  job: JobRow,
  { batch, questionIds, questions }: Asked,
  signal: AbortSignal,
): Promise<BatchOutcome> {
  const { fields, mode, threshold, overwrite, organizationId, actorId } = job;
  const about: AskedFor = {
    ...{ operation: OPERATION, organizationId, actorId, requestId: null },
    ...{ jobId: job._id, batchIndex: batch.index },
  };
  let answer: ModelAnswer;
  try {
    answer = await models.ask(classifyTask({ questionIds, questions, fields, overwrite }), about, signal);
  } catch (error) {
    if (!(error instanceof ProviderFailure) || error.nature !== 'refused') throw error;
    return { items: [], errors: errorsOf(questionIds, error), usage: null };
  }
  return { ...readClassification(answer.json, { questionIds, fields, mode, threshold }), usage: answer.usage };
}

/** One and the same failure of all these questions. */
export function errorsOf(questionIds: readonly string[], failure: ProviderFailure): BatchOutcome['errors'] {
  const message = failure.message.slice(0, MAX_MESSAGE);
  return questionIds.map((questionId) => ({ questionId, code: failure.code, message }));
}

/** null where there are only ids: no bank is configured. */
function questionsOf(job: JobRow, { _id, contextText }: JobBatch): { id: string }[] | null {
  if (job.context === 'NONE') return null;
  if (contextText === null) throw new Error(`batch ${_id} has no questions`);
  return JSON.parse(contextText) as { id: string }[];
}
