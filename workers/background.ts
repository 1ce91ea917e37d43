import pLimit from 'p-limit';

/** Work after a command that nobody waits for: it may fail, be late or be lost, and must never hold a worker's slot. */
export interface Background {
  /** Starts the work soon, or drops it when too much is waiting already. */
  run(work: () => Promise<void>): void;
  /** Resolves when everything taken has ended. */
  idle(): Promise<void>;
}

/** Bounded: a neighbour that hangs costs memory for `maxWaiting` pieces of work and nothing else. */
export function openBackground(options: {
  concurrency: number;
  maxWaiting: number;
  dropped: () => void;
  failed: (error: unknown) => void;
}): Background {
  const slots = pLimit(options.concurrency);
  const taken = new Set<Promise<void>>();
  return {
    run(work) {
      if (slots.pendingCount >= options.maxWaiting) return options.dropped();
      const piece = slots(work).catch(options.failed);
      taken.add(piece);
      void piece.finally(() => taken.delete(piece));
    },
    idle: async () => void (await Promise.allSettled(taken)),
  };
}
