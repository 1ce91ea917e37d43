import pLimit from 'p-limit';

/** More hashes are waiting than would be done in a time that anybody waits for. */
export class HasherBusy extends Error {
  constructor() {
    super('Too many hashes are waiting');
    this.name = 'HasherBusy';
  }
}

export type BoundedQueue = <T>(work: () => Promise<T>) => Promise<T>;

/** Runs `concurrency` works at once and lets `maxWaiting` more wait their turn; beyond that it rejects with HasherBusy at once. */
export function boundedQueue({ concurrency, maxWaiting }: { concurrency: number; maxWaiting: number }): BoundedQueue {
  const limit = pLimit(concurrency);
  let admitted = 0;
  return async (work) => {
    if (admitted >= concurrency + maxWaiting) throw new HasherBusy();
    admitted += 1;
    try {
      return await limit(work);
    } finally {
      admitted -= 1;
    }
  };
}
