import { setTimeout as delay } from 'node:timers/promises';
import type { LineLimits } from '#shared/auth/network-line.ts';
import { type FairQueue, fairQueue, type Lane } from './fair-queue.ts';

/** A known pair, a stranger, or a registration. */
export const LANE_KINDS = ['known', 'stranger', 'registration'] as const;
export type LaneKind = (typeof LANE_KINDS)[number];

/** Whose password is hashed. */
export type HashLane = Lane<LaneKind>;

export interface HashQueueOptions {
  /** Passwords that are hashed at once. */
  concurrency: number;
  /** Those of them that only known pairs may use. Default 0. */
  kept?: number;
  /** Limits of the line of a kind. Default LINES. */
  lines?: Partial<Readonly<Record<LaneKind, LineLimits>>>;
  /** Resolves after `ms`; for tests. */
  pause?: (ms: number) => Promise<unknown>;
  /** Returns milliseconds that never decrease; for tests. */
  clock?: () => number;
}

/**
 * Pieces of one kind that wait. A newcomer waits for one piece of each other network, so this many
 * networks cost it a minute or two.
 */
const TOTAL = 360;
/**
 * A stranger's share is small, because every stranger can fill the one of its address. Pupils of
 * one school who are known pairs arrive together and wait for each other. Their logins with the
 * right password have no other limit, so one account has a share too: otherwise one pupil could
 * fill the places of a school. Strangers have none for an account, because others could fill the
 * one of its owner.
 */
const LINES: Readonly<Record<LaneKind, LineLimits>> = {
  known: { total: TOTAL, ofAddress: 60, ofAccount: 6 },
  stranger: { total: TOTAL, ofAddress: 6, ofAccount: Number.POSITIVE_INFINITY },
  registration: { total: TOTAL, ofAddress: 6, ofAccount: Number.POSITIVE_INFINITY },
};

export interface HashQueue extends Pick<FairQueue<LaneKind>, 'hasRoom' | 'load'> {
  /**
   * Runs the work in its turn, as `FairQueue` does.
   *
   * After work of a stranger whose result `isWrong`, no stranger uses the slot for as long as that
   * work took. Guesses of strangers thus use at most half of a slot's processor time. Known pairs
   * and registrations may use it meanwhile.
   */
  run<T>(lane: HashLane, work: () => Promise<T>, isWrong?: (result: T) => boolean): Promise<T>;
}

/** Returns the queue of password hashes. */
export function hashQueue(options: HashQueueOptions): HashQueue {
  const { concurrency, kept = 0, lines = {}, pause = unreferencedPause, clock = () => performance.now() } = options;
  /** Slots that are closed to strangers. */
  let closed = 0;
  const queue = fairQueue<LaneKind>({
    lines: { ...LINES, ...lines },
    mayStart(kind, { known, stranger, registration }) {
      const others = stranger + registration;
      if (known + others >= concurrency) return false;
      if (kind === 'known') return true;
      return others + (kind === 'stranger' ? closed : 0) < concurrency - kept;
    },
  });

  async function closeToStrangers(ms: number): Promise<void> {
    closed += 1;
    await pause(ms);
    closed -= 1;
    queue.wake();
  }

  return {
    run: (lane, work, isWrong) =>
      queue.run(lane, async () => {
        const from = clock();
        const result = await work();
        if (lane.kind === 'stranger' && isWrong?.(result) === true) void closeToStrangers(clock() - from);
        return result;
      }),
    hasRoom: queue.hasRoom,
    load: queue.load,
  };
}

/** Resolves after `ms`, and does not keep the process alive until then. */
function unreferencedPause(ms: number): Promise<unknown> {
  return delay(ms, undefined, { ref: false });
}
