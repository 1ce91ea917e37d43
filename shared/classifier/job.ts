import { createHash } from 'node:crypto';
import type { TokenUsage } from '#shared/classifier/tasks/task.ts';

/** A classification job; small, whatever it classifies: its questions lie in the selection, what came of them in batches. */
export interface ClassificationJob {
  _id: string;
  status: JobStatus;
  /** One more at each retry. Whatever names an older round counts no more. */
  round: number;
  /** One more at each change, never reset: the event id of streams. */
  revision: number;
  actorId: string;
  actorRole: string;
  organizationId: string;
  fields: ClassifyField[];
  mode: ClassifyMode;
  overwrite: boolean;
  threshold: number;
  /** PENDING or RUNNING: another one with this `openKey` cannot be made. */
  open: boolean;
  openKey: string;
  context: JobContext;
  counts: JobCounts;
  /** Of this round; absent where no provider has counted yet. */
  usage: { inputTokens?: number; outputTokens?: number };
  error: { code: string; message: string } | null;
  createdAt: Date;
  startedAt: Date | null;
  finishedAt: Date | null;
  updatedAt: Date;
}

/** What is counted of the running round. */
export interface JobCounts {
  total: number;
  succeeded: number;
  failed: number;
  batchesTotal: number;
  batchesDone: number;
}

/**
 * Whether the questions' texts lie in the batches. `NONE`: no bank was configured when the job was made, prompts hold ids only. `FAILED`:
 * the bank did not give them; no prompt is made before it has.
 */
export type JobContext = 'LOADED' | 'NONE' | 'FAILED';

export const JOB_STATUSES = ['PENDING', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELLED'] as const;
export type JobStatus = (typeof JOB_STATUSES)[number];

export function isOpen(status: JobStatus): boolean {
  return status === 'PENDING' || status === 'RUNNING';
}

/** What can be suggested of a question. */
export const CLASSIFY_FIELDS = ['subject', 'gradeLevel', 'topic', 'difficulty', 'cognitiveLevel', 'tags'] as const;
export type ClassifyField = (typeof CLASSIFY_FIELDS)[number];

/** AUTO: what is sure enough counts as accepted. Nothing is ever written into the bank, by either. */
export type ClassifyMode = 'SUGGEST' | 'AUTO';

/** What a job classifies; never changed. `_id` is the job's. */
export interface JobSelection {
  _id: string;
  questionIds: string[];
  /** JSON text, because MongoDB refuses some keys; written by `filtersTextOf` and read by `filtersOf`. */
  filtersText: string;
}

export function filtersTextOf(filters: JobWish['filters']): string {
  return JSON.stringify(filters);
}

export function filtersOf({ filtersText }: JobSelection): Record<string, unknown> {
  return JSON.parse(filtersText) as Record<string, unknown>;
}

/** Questions that go to the provider together, always so many but in the last batch. */
export const BATCH_SIZE = 5;

/** Five questions of a job; `_id` is `<job>:<index>`. */
export interface JobBatch {
  _id: string;
  jobId: string;
  index: number;
  questionIds: string[];
  /** JSON text, written by `contextTextOf` and read by `contextOf`; null = the questions are not loaded. */
  contextText: string | null;
  /** null until a first round has finished it; counts for the round that it names. */
  outcome: StoredOutcome | null;
}

export function batchId(jobId: string, index: number): string {
  return `${jobId}:${index}`;
}

interface StoredOutcome {
  round: number;
  /** JSON text, written by `itemsTextOf` and read by `itemsOf`. */
  itemsText: string;
  errors: QuestionError[];
}

export function itemsTextOf({ items }: Pick<BatchOutcome, 'items'>): string {
  return JSON.stringify(items);
}

export function itemsOf({ itemsText }: Pick<StoredOutcome, 'itemsText'>): ClassifiedItem[] {
  return JSON.parse(itemsText) as ClassifiedItem[];
}

/** How one batch of one round ended: each of its questions is in one of the two lists, in their order. */
export interface BatchOutcome {
  items: ClassifiedItem[];
  errors: QuestionError[];
  /** null: the model was not asked, or gave nothing usable. */
  usage: TokenUsage | null;
}

export interface ClassifiedItem {
  questionId: string;
  suggestions: Partial<Record<ClassifyField, Suggestion>>;
  accepted: boolean;
}

/** What a model says of one field; tags are a list, all else text. */
export interface Suggestion {
  value: unknown;
  /** 0-1. */
  confidence: number;
}

/** Why one question has no suggestions. */
export interface QuestionError {
  questionId: string;
  code: string;
  message: string;
}

/** How a job ends whose batches are all done. */
export interface JobEnd {
  status: Extract<JobStatus, 'COMPLETED' | 'FAILED'>;
  error: ClassificationJob['error'];
}

const NOTHING_CAME = { code: 'AI_PROVIDER_INVALID_RESPONSE', message: 'No question was classified' };

/** COMPLETED when any question has suggestions; else FAILED, by the last of the errors that kept them from it. */
export function endOf(
  counts: Pick<JobCounts, 'succeeded'>,
  lastError: { code: string; message: string } | null,
): JobEnd {
  if (counts.succeeded > 0) return { status: 'COMPLETED', error: null };
  const { code, message } = lastError ?? NOTHING_CAME;
  return { status: 'FAILED', error: { code, message } };
}

/** Of a job, or what was still open of it, whose command died with the workers that ran it: nobody works on it any more. */
export const WORKERS_LOST = {
  code: 'INTERNAL',
  message: 'The job was given up: its worker failed at every attempt',
} as const;

/** What makes two requests for a job equal. */
export interface JobWish {
  actorId: string;
  organizationId: string;
  filters: Readonly<Record<string, unknown>>;
  questionIds: readonly string[];
  fields: readonly ClassifyField[];
  mode: ClassifyMode;
  overwrite: boolean;
  threshold: number;
}

/** Equal for equal wishes, whatever the order of their ids, their fields and the keys of their filters: hex of SHA-256. */
export function openKeyOf(wish: JobWish): string {
  const { actorId, organizationId, filters, questionIds, fields, mode, overwrite, threshold } = wish;
  const parts = [actorId, organizationId, filters, sorted(questionIds), sorted(fields), mode, overwrite, threshold];
  return createHash('sha256')
    .update(JSON.stringify(parts.map(inOrder)))
    .digest('hex');
}

function sorted(values: readonly string[]): string[] {
  return [...values].sort();
}

/** Objects as lists of pairs, by key: an object of our own could not hold a key named `__proto__`, and would put numbers first. */
function inOrder(value: unknown): unknown {
  if (Array.isArray(value)) return { list: value.map(inOrder) };
  if (typeof value !== 'object' || value === null) return value;
  const pairs = Object.entries(value).map(([key, held]): [string, unknown] => [key, inOrder(held)]);
  return pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
}
