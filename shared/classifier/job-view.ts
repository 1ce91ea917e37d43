import { JsonPart } from '#shared/kernel/json.ts';
import {
  type ClassificationJob,
  type ClassifiedItem,
  itemsOf,
  type JobBatch,
  type JobSelection,
  type QuestionError,
} from './job.ts';

/** Parts of a job's view that are stored outside the job row. */
interface JobParts {
  /** null = the view omits the items, as in lists. */
  items: readonly ClassifiedItem[] | null;
  /** The stored questions, or null if the job has none; undefined = the view omits the field. */
  questionContext?: JsonPart | null;
}

/** Returns a job as callers see it. Fields are listed one by one, so an internal field can never leave the service by accident. */
export function jobView(job: ClassificationJob, selection: JobSelection, { items, questionContext }: JobParts) {
  const { _id: id, status, revision, error, createdAt, startedAt, finishedAt, updatedAt } = job;
  return {
    id,
    status,
    scope: {
      actorId: job.actorId,
      actorRole: job.actorRole,
      organizationId: job.organizationId,
      filters: new JsonPart(selection.filtersText),
      fields: job.fields,
      mode: job.mode,
      overwrite: job.overwrite,
      threshold: job.threshold,
      questionIds: selection.questionIds,
      ...(questionContext === undefined ? {} : { questionContext }),
    },
    progress: progressOf(job),
    result:
      job.counts.batchesDone === 0
        ? null
        : {
            ...(items === null ? {} : { items }),
            errorCount: job.counts.failed,
            usage: { inputTokens: job.usage.inputTokens ?? null, outputTokens: job.usage.outputTokens ?? null },
          },
    error: error === null ? null : { code: error.code, message: error.message },
    revision,
    createdAt,
    startedAt,
    finishedAt,
    updatedAt,
  };
}

/** Returns a job as the queue summary lists it, without its questions. */
export function queuedJobView(job: ClassificationJob) {
  const { _id: id, status, organizationId, actorId, error, createdAt, startedAt, finishedAt, updatedAt } = job;
  return {
    id,
    status,
    organizationId,
    actorId,
    progress: progressOf(job),
    error: error === null ? null : { code: error.code, message: error.message },
    createdAt,
    startedAt,
    finishedAt,
    updatedAt,
  };
}

function progressOf({ counts }: ClassificationJob) {
  const { total, succeeded, failed, batchesTotal, batchesDone } = counts;
  const processed = succeeded + failed;
  const percent = total === 0 ? 100 : Math.floor((100 * processed) / total);
  return { total, processed, succeeded, failed, batchesTotal, batchesDone, percent };
}

type EndedBatch = Pick<JobBatch, 'index' | 'outcome'>;

/** Returns the classified items of this round so far, from batches in their order. */
export function itemsOfRound(round: number, batches: readonly EndedBatch[]): ClassifiedItem[] {
  return outcomesOf(round, batches).flatMap(({ outcome }) => itemsOf(outcome));
}

/** Returns the errors of this round so far, from batches in their order. */
export function errorsOfRound(
  round: number,
  batches: readonly EndedBatch[],
): (QuestionError & { batchIndex: number })[] {
  return outcomesOf(round, batches).flatMap(({ index, outcome }) =>
    outcome.errors.map(({ questionId, code, message }) => ({ questionId, batchIndex: index, code, message })),
  );
}

/** Returns the outcomes of this round; those of earlier rounds are ignored. */
function outcomesOf(round: number, batches: readonly EndedBatch[]) {
  return batches.flatMap(({ index, outcome }) => (outcome?.round === round ? [{ index, outcome }] : []));
}

/** First event of a job's stream. `snapshot`: the whole job, as for a new client. */
type StreamStart = { kind: 'snapshot' } | { kind: 'update' } | { kind: 'nothing' } | { kind: 'over' };

/**
 * Returns the first event for a client that names the last revision it received. `over`: the client knows the final state of a
 * finished job, and no event will follow.
 */
export function startOf(lastEventId: string | undefined, job: { revision: number; isOpen: boolean }): StreamStart {
  const known = /^[1-9]\d{0,14}$/.test(lastEventId ?? '') ? Number(lastEventId) : null;
  if (known === null || known > job.revision) return { kind: 'snapshot' };
  if (known < job.revision) return { kind: 'update' };
  return job.isOpen ? { kind: 'nothing' } : { kind: 'over' };
}
