import type { ClassificationJob, ClassifiedItem, JobBatch, JobSelection, QuestionError } from './job.ts';

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
      filters: JSON.parse(selection.filtersText) as Record<string, unknown>,
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

/** What the batches of a job's running round have brought so far, in the order of its questions. */
interface Brought {
  items: ClassifiedItem[];
  errors: (QuestionError & { batchIndex: number })[];
}

/** From batches in their order; what earlier rounds brought counts no more. */
export function broughtBy(round: number, batches: readonly Pick<JobBatch, 'index' | 'outcome'>[]): Brought {
  const ours = batches.filter(({ outcome }) => outcome?.round === round);
  return {
    items: ours.flatMap(({ outcome }) => JSON.parse(outcome?.itemsText ?? '[]') as ClassifiedItem[]),
    errors: ours.flatMap(({ index, outcome }) =>
      (outcome?.errors ?? []).map(({ questionId, code, message }) => ({
        questionId,
        batchIndex: index,
        code,
        message,
      })),
    ),
  };
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
