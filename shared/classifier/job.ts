import type { ClassifyField, ClassifyMode, JobStatus, QuestionError } from './classification.ts';

/** Questions that go to the provider together, always so many but in the last batch. */
export const BATCH_SIZE = 5;

/**
 * Whether the questions' texts lie in the batches. `NONE`: no bank was configured when the job was made, prompts hold ids only. `FAILED`:
 * the bank did not give them; no prompt is made before it has.
 */
export type JobContext = 'LOADED' | 'NONE' | 'FAILED';

/** What is counted of the running round. */
export interface JobCounts {
  total: number;
  succeeded: number;
  failed: number;
  batchesTotal: number;
  batchesDone: number;
}

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

/** What a job classifies; never changed. `_id` is the job's. */
export interface JobSelection {
  _id: string;
  questionIds: string[];
  /** JSON text: its keys may be such as MongoDB does not take. */
  filtersText: string;
}

/** Five questions of a job; `_id` is `<job>:<index>`. */
export interface JobBatch {
  _id: string;
  jobId: string;
  index: number;
  questionIds: string[];
  /** JSON text of a list of the bank's questions, those that it knew; null = not loaded. */
  contextText: string | null;
  /** null until a first round has finished it; counts for the round that it names. */
  outcome: StoredOutcome | null;
}

export interface StoredOutcome {
  round: number;
  /** JSON text of a list of classified items. */
  itemsText: string;
  errors: QuestionError[];
}

export function isOpen(status: JobStatus): boolean {
  return status === 'PENDING' || status === 'RUNNING';
}

/** What the command of a round is told. */
export interface JobBody {
  jobId: string;
  round: number;
}

export function commandKeyOf({ jobId, round }: JobBody): string {
  return `classifier:${jobId}:${round}`;
}

export function batchId(jobId: string, index: number): string {
  return `${jobId}:${index}`;
}
