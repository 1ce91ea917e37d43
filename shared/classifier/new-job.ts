import type { FaultDetail } from '#shared/kernel/errors.ts';
import { JsonPart, membersOf } from '#shared/kernel/json.ts';
import {
  BATCH_SIZE,
  batchId,
  type ClassificationJob,
  filtersTextOf,
  type JobBatch,
  type JobRequest,
  type JobSelection,
  type JobSlots,
  openKeyOf,
} from './job.ts';

/** A new job with its selection and batches. */
export interface NewJob {
  job: ClassificationJob;
  selection: JobSelection;
  batches: JobBatch[];
}

interface JobOrigin {
  id: string;
  now: Date;
  actorRole: string;
  slots: JobSlots;
}

/**
 * Questions of a job that the bank returned, by id. `NONE`: no bank is configured. `FAILED`: the bank did not answer; such a job is
 * created as FAILED.
 */
export type JobQuestions =
  | { kind: 'LOADED'; known: ReadonlyMap<string, unknown> }
  | { kind: 'NONE' }
  | { kind: 'FAILED' };

/** Returns a new job for this request: PENDING, or FAILED if the bank did not return its questions. */
export function newJob(request: JobRequest, { id, now, actorRole, slots }: JobOrigin, questions: JobQuestions): NewJob {
  const batches = batchesOf(id, request.questionIds, questions.kind === 'LOADED' ? questions.known : null);
  const hasFailed = questions.kind === 'FAILED';
  const { questionIds, filters, ...scope } = request;
  return {
    selection: { _id: id, questionIds: [...questionIds], filtersText: filtersTextOf(filters) },
    batches,
    job: {
      _id: id,
      status: hasFailed ? 'FAILED' : 'PENDING',
      round: 1,
      revision: 1,
      ...scope,
      fields: [...scope.fields],
      actorRole,
      open: !hasFailed,
      openKey: openKeyOf(request),
      slotted: true,
      actorSlot: slots.actorSlot,
      organizationSlot: slots.organizationSlot,
      context: questions.kind,
      counts: { total: questionIds.length, succeeded: 0, failed: 0, batchesTotal: batches.length, batchesDone: 0 },
      usage: {},
      error: hasFailed ? CONTEXT_FAILED : null,
      createdAt: now,
      startedAt: null,
      finishedAt: hasFailed ? now : null,
      updatedAt: now,
    },
  };
}

export const CONTEXT_FAILED = {
  code: 'AI_QUESTION_CONTEXT_FAILED',
  message: 'The question bank did not return the questions',
} as const;

function batchesOf(
  jobId: string,
  questionIds: readonly string[],
  questions: ReadonlyMap<string, unknown> | null,
): JobBatch[] {
  const batches: JobBatch[] = [];
  for (let at = 0; at < questionIds.length; at += BATCH_SIZE) {
    const [index, ids] = [batches.length, questionIds.slice(at, at + BATCH_SIZE)];
    const contextText = questions === null ? null : contextTextOf(ids, questions);
    batches.push({ _id: batchId(jobId, index), jobId, index, questionIds: ids, contextText, outcome: null });
  }
  return batches;
}

/** Returns the context of a batch as stored text: its questions that the bank knows, in the batch's order. */
export function contextTextOf(ids: readonly string[], questions: ReadonlyMap<string, unknown>): string {
  return JSON.stringify(ids.map((id) => questions.get(id)).filter((question) => question !== undefined));
}

/** Returns the questions of some texts of `contextTextOf` as one list. */
export function joinedContexts(texts: readonly string[]): JsonPart {
  const questions = texts.map((text) => text.slice(1, -1)).filter((text) => text !== '');
  return new JsonPart(`[${questions.join()}]`);
}

/** Returns the questions that `contextTextOf` stored; each carries at least its id. */
export function contextOf(contextText: string): { id: string }[] {
  return JSON.parse(contextText) as { id: string }[];
}

/** Returns the faults that the schema cannot detect: a question or a field that is listed twice. Accepts a body of any shape. */
export function jobRequestFaults(body: unknown): FaultDetail[] {
  return [...duplicateFaults(body, 'questionIds'), ...duplicateFaults(body, 'fields')];
}

function duplicateFaults(body: unknown, name: string): FaultDetail[] {
  const list = membersOf(body)[name];
  if (!Array.isArray(list)) return [];
  return duplicateIndexes(list).map((at) => ({ path: `/${name}/${at}`, message: 'duplicate value' }));
}

/** Returns the indexes of values that occur earlier in the list. */
export function duplicateIndexes(values: readonly unknown[]): number[] {
  const seen = new Set<unknown>();
  return values.flatMap((value, index) => {
    const isRepeated = seen.has(value);
    seen.add(value);
    return isRepeated ? [index] : [];
  });
}
