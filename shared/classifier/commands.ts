import type { CommandRef, Order } from '#shared/kernel/command.ts';
import { type EventOut, publishOrder } from '#shared/kernel/event-out.ts';
import type { Generation } from './generation.ts';
import type { ClassificationJob, JobStatus } from './job.ts';

/** Bodies, progress and results of the AI classifier's commands, by queue. */
export interface ClassifierCommands {
  /** Runs one round of a job. The sweep of orphaned jobs shares the queue. */
  classifier: {
    body: JobRound | SweepBody;
    progress: JobProgress | SweepProgress;
    result: { status: JobStatus } | { roundIsOver: true };
  };
  /** Settles a generation whose answer is stored. */
  settlement: {
    body: SettlementBody;
    /** Stored once the usage service has counted the charge. */
    progress: { usageConsumed: true };
    /** The process that ran the command; a label for operators. */
    result: { settledBy: 'front door' | 'worker' };
  };
}

interface SettlementBody {
  previewId: string;
  /** Key of the generation, which decides on which shard it is; absent after an erasure. */
  key?: string;
  /** true = an operator has consented to charge the answer although an equal request was charged anew. */
  chargeSuperseded?: true;
}

/** One round of a job. A write that names an older round has no effect. */
export interface JobRound {
  jobId: string;
  round: number;
}

/** Newest checkpoint of a round, for operators only: a repeated run resumes from the batches themselves. */
export interface JobProgress {
  phase: 'begin' | 'questions' | 'batches';
  /** Index of a batch; -1 = none yet. */
  last: number;
}

/** The body of a recurring command. */
interface SweepBody {
  jobId?: undefined;
}

/** Position at which the next sweep resumes; absent = at the beginning. */
interface SweepProgress {
  phase?: undefined;
  afterId?: string;
}

/** The recurring command that ends jobs whose own command is dead. */
export const ORPHANED_JOBS_SWEEP = { queue: 'classifier', key: 'classifier:lost-jobs', subject: 'jobs' } as const;

/**
 * The recurring command that ends settlements whose day is over. Without a settlement worker, no other process ends a settlement whose
 * request is never repeated.
 */
export const UNPAID_GENERATIONS_SWEEP = {
  queue: 'upkeep',
  key: 'upkeep:unpaid-generations',
  subject: 'generations',
} as const;

/** Work of a command in the queue `classifier`. */
export type ClassifierWork = { kind: 'round'; at: JobRound } | { kind: 'sweep'; afterId: string };

/**
 * Returns the work of a command.
 * @throws if the body of a round names no job
 */
export function classifierWork(command: {
  key: string;
  body: ClassifierCommands['classifier']['body'];
  progress: ClassifierCommands['classifier']['progress'] | null;
}): ClassifierWork {
  const { key, body, progress } = command;
  if (key === ORPHANED_JOBS_SWEEP.key) {
    return { kind: 'sweep', afterId: (progress?.phase === undefined ? progress?.afterId : undefined) ?? '' };
  }
  if (body.jobId === undefined) throw new Error(`command ${key} names no job`);
  return { kind: 'round', at: body };
}

/** Returns the order of a round's command: one per round of a job. It runs in the turn of the job's organization. */
export function roundOrder(at: JobRound, organizationId: string): Order<'classifier', JobRound> {
  return { queue: 'classifier', key: roundKey(at), subject: at.jobId, organizationId, body: at };
}

/** Returns the key of the command that runs a round: one per job and round. */
export function roundKey({ jobId, round }: JobRound): string {
  return `classifier:${jobId}:${round}`;
}

/** Returns the order of a settlement command: one per generation. */
export function settlementOrder({
  _id: previewId,
  key,
}: Pick<Generation, '_id' | 'key'>): Order<'settlement', SettlementBody> {
  return { queue: 'settlement', key: settlementKey(previewId), subject: previewId, body: { previewId, key } };
}

/** Returns the settlement command of a generation, by the id that the generation stores. */
export function settlementCommand(row: { _id: string; commandId: string }): CommandRef<'settlement'> {
  return { _id: row.commandId, queue: 'settlement', key: settlementKey(row._id) };
}

function settlementKey(previewId: string): string {
  return `settlement:${previewId}`;
}

/** Returns the command that publishes the end of a job: one per round. */
export function completedOrder(
  { organizationId, counts }: Pick<ClassificationJob, 'organizationId' | 'counts'>,
  { jobId, round }: JobRound,
  status: JobStatus,
): Order<'upkeep:publish', EventOut> {
  const { succeeded, failed } = counts;
  const event: EventOut = { type: 'job.completed', jobId, organizationId, status, succeeded, failed };
  return publishOrder(event, `${jobId}:${round}`);
}
