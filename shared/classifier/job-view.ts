import {
  type ClassificationJob,
  type ClassifiedItem,
  filtersOf,
  itemsOf,
  type JobBatch,
  type JobSelection,
  type QuestionError,
} from './job.ts';

/** A job as callers see it; `items` null: without them, as in lists. Field by field: what nobody names here never leaves the service. */
export function jobView(job: ClassificationJob, selection: JobSelection, items: readonly ClassifiedItem[] | null) {
  const { _id: id, status, revision, error, createdAt, startedAt, finishedAt, updatedAt } = job;
  return {
    id,
    status,
    scope: {
      actorId: job.actorId,
      actorRole: job.actorRole,
      organizationId: job.organizationId,
      filters: filtersOf(selection),
      fields: job.fields,
      mode: job.mode,
      overwrite: job.overwrite,
      threshold: job.threshold,
      questionIds: selection.questionIds,
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

/** A job as the queue summary tells of it: without its questions. */
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

/** Outcomes of earlier rounds count no more. */
function outcomesOf(round: number, batches: readonly EndedBatch[]) {
  return batches.flatMap(({ index, outcome }) => (outcome?.round === round ? [{ index, outcome }] : []));
}

/** How a stream of a job begins. `snapshot`: as if for the first time. */
type StreamStart = { kind: 'snapshot' } | { kind: 'update' } | { kind: 'nothing' } | { kind: 'over' };

/**
 * What a client is told first that names the last revision which it was told of. `over`: it knows the end of a finished job, and need not
 * come again.
 */
export function startOf(lastEventId: string | undefined, job: { revision: number; isOpen: boolean }): StreamStart {
  const known = /^[1-9]\d{0,14}$/.test(lastEventId ?? '') ? Number(lastEventId) : null;
  if (known === null || known > job.revision) return { kind: 'snapshot' };
  if (known < job.revision) return { kind: 'update' };
  return job.isOpen ? { kind: 'nothing' } : { kind: 'over' };
}
