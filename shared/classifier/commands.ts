import type { Order } from '#shared/kernel/command.ts';
import type { JobStatus } from './job.ts';

/** What the commands of the AI classifier carry, by queue: the body, how far a run has come, and the result. */
export interface ClassifierCommands {
  /** Runs one round of a job; the sweep of lost jobs shares the queue. */
  classifier: {
    body: JobRound | SweepBody;
    progress: JobProgress | SweepProgress;
    result: { status: JobStatus } | { roundIsOver: true };
  };
  /** Pays for a generation that its front door could not pay for. */
  settlement: {
    body: { previewId: string };
    /** Stored once the usage service has counted it. */
    progress: { usageConsumed: true };
    result: { settledBy: 'front door' | 'worker' };
  };
}

/** A job in one of its rounds: what is written for an older round changes nothing. */
export interface JobRound {
  jobId: string;
  round: number;
}

/** What the newest checkpoint of a round stored, for operators: a run goes on from the batches themselves. */
export interface JobProgress {
  phase: 'begin' | 'questions' | 'batches';
  /** Index of a batch; -1 = none yet. */
  last: number;
}

/** The body of a recurring command. */
interface SweepBody {
  jobId?: undefined;
}

/** Where the next sweep goes on; absent = at the beginning. */
interface SweepProgress {
  phase?: undefined;
  afterId?: string;
}

/** The recurring command that ends the jobs whose own command is dead. */
export const LOST_JOBS_SWEEP = { queue: 'classifier', key: 'classifier:lost-jobs', subject: 'jobs' } as const;

/** What a command of the queue `classifier` asks for. */
export type ClassifierWork = { kind: 'round'; at: JobRound } | { kind: 'sweep'; afterId: string };

/** @throws if the body of a round names no job */
export function classifierWork(command: {
  key: string;
  body: ClassifierCommands['classifier']['body'];
  progress: ClassifierCommands['classifier']['progress'] | null;
}): ClassifierWork {
  const { key, body, progress } = command;
  if (key === LOST_JOBS_SWEEP.key) {
    return { kind: 'sweep', afterId: (progress?.phase === undefined ? progress?.afterId : undefined) ?? '' };
  }
  if (body.jobId === undefined) throw new Error(`command ${key} names no job`);
  return { kind: 'round', at: body };
}

/** One command per round of a job. */
export function roundOrder(at: JobRound): Order<'classifier', JobRound> {
  return { queue: 'classifier', key: roundKey(at), subject: at.jobId, body: at };
}

export function roundKey({ jobId, round }: JobRound): string {
  return `classifier:${jobId}:${round}`;
}

/** One settlement per generation. */
export function settlementOrder(previewId: string): Order<'settlement', { previewId: string }> {
  return { queue: 'settlement', key: `settlement:${previewId}`, subject: previewId, body: { previewId } };
}
