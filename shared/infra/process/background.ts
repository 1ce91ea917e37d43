import pLimit from 'p-limit';

/** Work after a command that nobody waits for: it may fail, be late or be lost, and must never hold a worker's slot. */
export interface Background {
  /** Starts the work soon, or drops it when too much is waiting already. What waits holds memory: let it be little. */
  run(work: () => Promise<void>): void;
  /** Takes no more and lets what was taken end, for so long; the rest is dropped. How many pieces that were. */
  end(limitMs: number): Promise<number>;
}

/** Default limits of a process's background work: calls at once, and calls that wait. */
export const BACKGROUND_LIMITS = { concurrency: 16, maxWaiting: 1_000 };
/** Time for background work at the end of a process (ms). No caller waits for it, and a neighbour that hangs must not delay the stop. */
export const LAST_BACKGROUND_MS = 1_000;

/** Bounded: a neighbour that hangs costs memory for `maxWaiting` pieces of work and nothing else. */
export function openBackground(options: {
  concurrency: number;
  maxWaiting: number;
  /** So many pieces of work were not done, or not to their end. */
  dropped: (count: number) => void;
  failed: (error: unknown) => void;
}): Background {
  const slots = pLimit(options.concurrency);
  const taken = new Set<Promise<void>>();
  let ending = false;
  return {
    run(work) {
      if (ending || slots.pendingCount >= options.maxWaiting) return options.dropped(1);
      const piece = slots(work).catch(options.failed);
      taken.add(piece);
      void piece.finally(() => taken.delete(piece));
    },
    async end(limitMs) {
      ending = true;
      await endsWithin(Promise.allSettled(taken), limitMs);
      slots.clearQueue();
      const dropped = taken.size;
      if (dropped > 0) options.dropped(dropped);
      return dropped;
    },
  };
}

/** What `work` gives; rejects with what `late` makes once `ms` are over. A result that comes later is dropped, a rejection too. */
export async function bounded<Result>(work: Promise<Result>, ms: number, late: () => Error): Promise<Result> {
  const over = Promise.withResolvers<never>();
  const timer = setTimeout(() => over.reject(late()), ms);
  try {
    return await Promise.race([work, over.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** Whether `work` ended within `ms`. @throws what it rejects with in that time */
export async function endsWithin(work: Promise<unknown>, ms: number): Promise<boolean> {
  const over = Promise.withResolvers<false>();
  const timer = setTimeout(over.resolve, ms, false);
  try {
    return await Promise.race([work.then(() => true), over.promise]);
  } finally {
    clearTimeout(timer);
  }
}
