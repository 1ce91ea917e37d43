import pLimit from 'p-limit';
import { endsWithin } from './bounded.ts';

/** Work after a command that nobody waits for: it may fail, be late or be lost, and must never hold a worker's slot. */
export interface Background {
  /** Starts the work soon, or drops it when too much is waiting already. What waits holds memory: let it be little. */
  run(work: () => Promise<void>): void;
  /** Takes no more and lets what was taken end, for so long; the rest is dropped. How many pieces that were. */
  end(limitMs: number): Promise<number>;
}

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
