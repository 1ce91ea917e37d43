import type { Command, Order, Queue } from '#shared/kernel/command.ts';
import { SECOND } from '#shared/kernel/time.ts';
import type { LetterFilter } from './dead-letter.ts';

/** The acts on a dead letter. */
export const DEAD_ACTS = ['replay', 'ack', 'drop'] as const;
export type DeadActName = (typeof DEAD_ACTS)[number];

/** The past participle of each act, for texts. */
export const DONE_WORDS: Readonly<Record<DeadActName, string>> = {
  replay: 'replayed',
  ack: 'acknowledged',
  drop: 'dropped',
};

/** An operator's name and reason, as the audit stores them. */
export interface Asker {
  operator: string;
  reason: string;
}

/** One act on all dead letters that a filter chooses. */
export interface BulkBody extends Asker {
  act: DeadActName;
  /** `until` is at most the time of the request: a letter that dies later is not chosen, so each death is taken once. */
  filter: LetterFilter & { until: Date };
  /** Letters that the filter chose at the time of the request. */
  counted: number;
  /** True if that number is a lower bound. Absent otherwise. */
  more?: boolean;
  /** Digest of the filter's subject, as the audit names it. Absent without one. */
  subjectDigest?: string;
  perSecond: number;
  /** Consent to charge answers that no request returns any longer. */
  chargeSuperseded: boolean;
  /** Absent until an operator stops the act. */
  stop?: Asker & { at: Date };
}

/** Returns true if one of these workers carries out bulk acts. */
export function isBulkServed(workers: readonly { queues: readonly string[] }[]): boolean {
  return workers.some(({ queues }) => queues.includes('upkeep:deadletters'));
}

/** The letters that a bulk act has passed. Each number is stored in the transaction of its letter. */
export interface BulkCounts {
  done: number;
  /** Letters that another operator had changed meanwhile. */
  skipped: number;
  /** Settlements that are superseded. */
  refused: number;
}

export interface BulkProgress extends BulkCounts {
  queue: Queue;
  /** Id of the last letter of this queue; empty at its beginning. */
  after: string;
  /** The queue whose due commands the act waits for, or null. */
  waitsFor: Queue | null;
}

export type BulkResult = BulkCounts & { stopped: boolean };

/** Body, progress and result of a bulk act. */
export interface BulkCommands {
  'upkeep:deadletters': { body: BulkBody; progress: BulkProgress; result: BulkResult };
}

type BulkCommand = Command<BulkBody, BulkProgress, BulkResult>;

/** Letters a second, by default and at most. A letter is one transaction, and all of them append to one audit. */
export const PER_SECOND = 20;
export const MAX_PER_SECOND = 200;
/** Letters of one page: those of one second, but at most this many. */
const MAX_PAGE = 100;
/** Due commands of a queue at which a replay waits for its workers. */
export const MAX_DUE = 100;
/** Wait of such a replay, in milliseconds. */
export const DUE_WAIT_MS = SECOND;

/** Returns the command of a bulk act. A repeat with the same key posts no second one. An erasure finds it by its subject. */
export function bulkOrder(key: string, body: BulkBody): Order<'upkeep:deadletters', BulkBody> {
  return {
    queue: 'upkeep:deadletters',
    key: `dead-letters:${key}`,
    subject: body.filter.subject ?? 'dead letters',
    body,
  };
}

/** Returns how many letters one page has. */
export function lettersOfPage(perSecond: number): number {
  return Math.min(perSecond, MAX_PAGE);
}

/** Returns the wait after a page, in milliseconds, so that the act keeps its pace. */
export function pauseAfter(letters: number, perSecond: number, tookMs: number): number {
  return Math.max(0, (letters * SECOND) / perSecond - tookMs);
}

/** Returns true if a bulk act takes letters of this queue. A dead bulk act is revived only by an act that names its queue. */
export function isTaken(queue: Queue, { queue: named }: Pick<LetterFilter, 'queue'>): boolean {
  return named === queue || (named === undefined && queue !== 'upkeep:deadletters');
}

/** Returns true if both requests are for the same act on the same letters. */
export function isSameRequest(one: BulkBody, other: BulkBody): boolean {
  const { act, perSecond, chargeSuperseded, reason, filter } = one;
  const { queue, cause, subject, since, until } = filter;
  const isSameWay =
    act === other.act &&
    perSecond === other.perSecond &&
    chargeSuperseded === other.chargeSuperseded &&
    reason === other.reason;
  return (
    isSameWay &&
    queue === other.filter.queue &&
    cause === other.filter.cause &&
    subject === other.filter.subject &&
    since?.getTime() === other.filter.since?.getTime() &&
    until?.getTime() === other.filter.until?.getTime()
  );
}

export type BulkState = 'WAITING' | 'RUNNING' | 'STOPPING' | 'STOPPED' | 'DONE' | 'DEAD';

function bulkState({ status, progress, lockedUntil, result, body }: BulkCommand): BulkState {
  if (status === 'DEAD') return 'DEAD';
  if (status !== 'PENDING') return result !== null && 'stopped' in result && result.stopped ? 'STOPPED' : 'DONE';
  if (body.stop !== undefined) return 'STOPPING';
  return progress === null && lockedUntil === null ? 'WAITING' : 'RUNNING';
}

/** Returns a bulk act as command line, routes and console show it. */
export function bulkView(command: BulkCommand) {
  const { _id: id, body, progress, createdAt, settledAt, lastError } = command;
  const { act, operator, reason, counted, more = false, perSecond, chargeSuperseded, stop } = body;
  const { queue, cause, subject, since, until } = body.filter;
  const { done, skipped, refused } = progress ?? { done: 0, skipped: 0, refused: 0 };
  return {
    id,
    act,
    state: bulkState(command),
    operator,
    reason,
    filter: {
      queue: queue ?? null,
      cause: cause ?? null,
      subject: subject ?? null,
      since: since?.toISOString() ?? null,
      until: until.toISOString(),
    },
    perSecond,
    chargeSuperseded,
    counted,
    more,
    done,
    skipped,
    refused,
    waitsFor: progress?.waitsFor ?? null,
    askedAt: createdAt.toISOString(),
    endedAt: settledAt?.toISOString() ?? null,
    stoppedBy: stop?.operator ?? null,
    error: lastError?.message ?? null,
  };
}

export type BulkView = ReturnType<typeof bulkView>;
