import pLimit from 'p-limit';

/** Best-effort work after a command: it may fail, be late or be lost, and must never hold a worker's slot. */
export interface Background {
  /** Starts the work soon, or drops it if too much is waiting. Waiting work occupies memory, so it should retain little. */
  run(work: () => Promise<void>): void;
  /** Accepts no more work and waits up to `limitMs` for the accepted work. Drops the rest and returns its number. */
  end(limitMs: number): Promise<number>;
}

/** Pieces of background work that a process runs at once. */
export const BACKGROUND_CONCURRENCY = 16;
/** Time for background work at the end of a process (ms). No caller waits for it, and a neighbour that hangs must not delay the stop. */
export const LAST_BACKGROUND_MS = 1_000;

/** Opens the background work of a process. A hanging neighbour only costs the memory of `maxWaiting` pieces of work. */
export function openBackground(options: {
  concurrency: number;
  maxWaiting: number;
  /** Called with the number of pieces that were not run, or not to their end. */
  dropped: (count: number) => void;
  /** Called with the error of a piece that failed. */
  failed: (error: unknown) => void;
}): Background {
  const slots = pLimit(options.concurrency);
  const accepted = new Set<Promise<void>>();
  let ending = false;
  return {
    run(work) {
      if (ending || slots.pendingCount >= options.maxWaiting) return options.dropped(1);
      const piece = slots(work).catch(options.failed);
      accepted.add(piece);
      void piece.finally(() => accepted.delete(piece));
    },
    async end(limitMs) {
      ending = true;
      await settlesWithin(Promise.allSettled(accepted), limitMs);
      slots.clearQueue();
      const dropped = accepted.size;
      if (dropped > 0) options.dropped(dropped);
      return dropped;
    },
  };
}

/** Returns the result of `work`, or rejects with the error of `late` after `ms`. A later result or rejection is ignored. */
export async function withTimeout<Result>(work: Promise<Result>, ms: number, late: () => Error): Promise<Result> {
  const over = Promise.withResolvers<never>();
  const timer = setTimeout(() => over.reject(late()), ms);
  try {
    return await Promise.race([work, over.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** Resolves with true if `work` ends within `ms`, and with false otherwise. @throws the rejection of `work` within that time */
export async function settlesWithin(work: Promise<unknown>, ms: number): Promise<boolean> {
  const over = Promise.withResolvers<false>();
  const timer = setTimeout(over.resolve, ms, false);
  try {
    return await Promise.race([work.then(() => true), over.promise]);
  } finally {
    clearTimeout(timer);
  }
}
