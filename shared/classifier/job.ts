import { createHash } from 'node:crypto';
import type { TokenUsage } from '#shared/classifier/tasks/task.ts';

/** A classification job. It stays small: the selection stores its questions, the batches their results. */
export interface ClassificationJob {
  _id: string;
  status: JobStatus;
  /** Incremented by each retry. Writes that name an older round have no effect. */
  round: number;
  /** Incremented by each change and never reset: the event id of streams. */
  revision: number;
  actorId: string;
  actorRole: string;
  organizationId: string;
  fields: string[];
  mode: ClassifyMode;
  overwrite: boolean;
  threshold: number;
  /** true while PENDING or RUNNING: no second job with this `openKey` can be created. */
  open: boolean;
  openKey: string;
  /** Selects the jobs with slots, which all are, in the indexes of the slots. */
  slotted: true;
  /** Slot among the open jobs of the actor. While `open`, no other open job of the actor has it. */
  actorSlot: number;
  /** Slot among the open jobs of the organization. */
  organizationSlot: number;
  context: JobContext;
  counts: JobCounts;
  /** Tokens of this round; a count is absent until a provider has returned one. */
  usage: { inputTokens?: number; outputTokens?: number };
  error: { code: string; message: string } | null;
  createdAt: Date;
  startedAt: Date | null;
  finishedAt: Date | null;
  updatedAt: Date;
}

/** Progress counters of the current round. */
export interface JobCounts {
  total: number;
  succeeded: number;
  failed: number;
  batchesTotal: number;
  batchesDone: number;
}

/**
 * State of the question texts. `LOADED`: the batches store them. `NONE`: no bank was configured at creation, so prompts contain ids
 * only. `FAILED`: the bank did not return them; no prompt is built until it does.
 */
export type JobContext = 'LOADED' | 'NONE' | 'FAILED';

export const JOB_STATUSES = ['PENDING', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELLED'] as const;
export type JobStatus = (typeof JOB_STATUSES)[number];

/** Returns whether a job of this status can still run. */
export function isOpen(status: JobStatus): boolean {
  return status === 'PENDING' || status === 'RUNNING';
}

/** Returns true if the owner may restart a job in this state. */
export function mayRetry(status: JobStatus): boolean {
  return status === 'FAILED' || status === 'CANCELLED';
}

/** Maximum of open jobs. Each open job holds one slot of its actor and one of its organization, numbered from 0. */
export interface OpenJobLimits {
  perActor: number;
  perOrganization: number;
}

/** The slots that an open job holds. */
export interface JobSlots {
  actorSlot: number;
  organizationSlot: number;
}

/** AUTO marks items as accepted if every confidence reaches the threshold. Neither mode writes to the question bank. */
export type ClassifyMode = 'SUGGEST' | 'AUTO';

/** The questions that a job classifies; never changed. `_id` is the job's id. */
export interface JobSelection {
  _id: string;
  questionIds: string[];
  /** JSON text, because MongoDB refuses some keys. */
  filtersText: string;
}

/** Returns filters as the JSON text that is stored. */
export function filtersTextOf(filters: JobRequest['filters']): string {
  return JSON.stringify(filters);
}

/** Questions of one model call; only the last batch of a job may have fewer. */
export const BATCH_SIZE = 5;

/** Up to five questions of a job; `_id` is `<job>:<index>`. */
export interface JobBatch {
  _id: string;
  jobId: string;
  index: number;
  questionIds: string[];
  /** JSON text, written by `contextTextOf` and read by `contextOf`; null = the questions are not loaded. */
  contextText: string | null;
  /** null until a round has finished the batch; valid only for the round that it names. */
  outcome: StoredOutcome | null;
  /** Number of runs of a round in which the call for the batch failed. Absent: no run. */
  vain?: { round: number; runs: number };
}

/** Returns the id of a batch by its index, from 0. */
export function batchId(jobId: string, index: number): string {
  return `${jobId}:${index}`;
}

interface StoredOutcome {
  round: number;
  /** JSON text, written by `itemsTextOf` and read by `itemsOf`. */
  itemsText: string;
  errors: QuestionError[];
}

/** Returns the items of an outcome as the JSON text that is stored. */
export function itemsTextOf({ items }: Pick<BatchOutcome, 'items'>): string {
  return JSON.stringify(items);
}

/** Returns the stored items of an outcome. */
export function itemsOf({ itemsText }: Pick<StoredOutcome, 'itemsText'>): ClassifiedItem[] {
  return JSON.parse(itemsText) as ClassifiedItem[];
}

/** Result of one batch in one round. Each of its questions is in exactly one of the two lists, in the batch's order. */
export interface BatchOutcome {
  items: ClassifiedItem[];
  errors: QuestionError[];
  /** null = the model was not called, or returned no usable answer. */
  usage: TokenUsage | null;
}

export interface ClassifiedItem {
  questionId: string;
  /** A `Suggestion` for each field. */
  suggestions: Record<string, unknown>;
  accepted: boolean;
}

/** A model's suggestion for one field: a list for tags, text for every other field. */
export interface Suggestion {
  value: unknown;
  /** From 0 (a guess) to 1 (certain). */
  confidence: number;
}

/** Reason why one question has no suggestions. */
export interface QuestionError {
  questionId: string;
  code: string;
  message: string;
}

/** Final state of a job whose batches are all done. */
export interface JobEnd {
  status: Extract<JobStatus, 'COMPLETED' | 'FAILED'>;
  error: ClassificationJob['error'];
}

const NONE_CLASSIFIED = { code: 'AI_PROVIDER_INVALID_RESPONSE', message: 'No question was classified' };

/** Returns COMPLETED if any question has suggestions, otherwise FAILED with the last error of its questions. */
export function jobEndOf(
  counts: Pick<JobCounts, 'succeeded'>,
  lastError: { code: string; message: string } | null,
): JobEnd {
  if (counts.succeeded > 0) return { status: 'COMPLETED', error: null };
  const { code, message } = lastError ?? NONE_CLASSIFIED;
  return { status: 'FAILED', error: { code, message } };
}

/** Error of a job, or of its unfinished questions, whose command is dead because its workers failed at every attempt. */
export const WORKERS_LOST = {
  code: 'INTERNAL',
  message: 'The job was given up: its worker failed at every attempt',
} as const;

/** Fields that make two job requests equal. */
export interface JobRequest {
  actorId: string;
  organizationId: string;
  filters: Readonly<Record<string, unknown>>;
  questionIds: readonly string[];
  fields: readonly string[];
  mode: ClassifyMode;
  overwrite: boolean;
  threshold: number;
}

/** Returns a key that equal requests share, whatever the order of ids, fields and filter keys: SHA-256 as hex. */
export function openKeyOf(request: JobRequest): string {
  const { actorId, organizationId, filters, questionIds, fields, mode, overwrite, threshold } = request;
  const parts = [actorId, organizationId, filters, sorted(questionIds), sorted(fields), mode, overwrite, threshold];
  return createHash('sha256')
    .update(JSON.stringify(parts.map(inOrder)))
    .digest('hex');
}

function sorted(values: readonly string[]): string[] {
  return [...values].sort();
}

/**
 * Converts objects to lists of pairs, sorted by key. A rebuilt object could not hold a key `__proto__` and would put numeric keys
 * first.
 */
function inOrder(value: unknown): unknown {
  if (Array.isArray(value)) return { list: value.map(inOrder) };
  if (typeof value !== 'object' || value === null) return value;
  const pairs = Object.entries(value).map(([key, held]): [string, unknown] => [key, inOrder(held)]);
  return pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
}
