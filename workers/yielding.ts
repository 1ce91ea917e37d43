import { setTimeout as delay } from 'node:timers/promises';

/** Time (ms) between two looks at the other queue, one for all runs of the worker. */
const LOOK_MS = 250;
/** Longest wait (ms), and the time after it in which the worker does not look again: its backlog cannot grow for ever. */
export const YIELD_MS = 4_000;
export const TURN_MS = 1_000;

interface Yielding {
  /** Returns true while commands of the other queue are due. */
  isDue(): Promise<boolean>;
  /** Returns true once the worker claims no more. */
  isDraining(): boolean;
  /** Milliseconds that never decrease, and a wait; for tests. */
  clock?: () => number;
  wait?: (ms: number) => Promise<unknown>;
}

/**
 * Returns the wait of a run whose end no caller awaits, while students wait for runs of another queue: both share a database, and mostly a
 * machine. It ends once nothing of that queue is due, and at the latest after YIELD_MS. For TURN_MS the worker then does not yield at all,
 * so it has a fifth of the time even if the other queue never empties or no worker runs it.
 */
export function openYielding({ isDue, isDraining, ...options }: Yielding): () => Promise<void> {
  const { clock = () => performance.now(), wait = delay } = options;
  let freeUntil = Number.NEGATIVE_INFINITY;
  let waiting: Promise<void> | null = null;

  async function yieldOnce(): Promise<void> {
    const until = clock() + YIELD_MS;
    while (!isDraining() && (await isDue())) {
      if (clock() >= until) {
        freeUntil = clock() + TURN_MS;
        return;
      }
      await wait(LOOK_MS);
    }
    freeUntil = clock() + LOOK_MS;
  }

  return async () => {
    if (clock() < freeUntil) return;
    waiting ??= yieldOnce().finally(() => {
      waiting = null;
    });
    await waiting;
  };
}
