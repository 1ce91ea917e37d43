/** Adds up the time of chosen pieces of a longer work. */
export interface Stopwatch {
  /** Runs `work`, adds its milliseconds, and gives its result. */
  time<Result>(work: () => Promise<Result>): Promise<Result>;
  /** Milliseconds so far. */
  total(): number;
}

export function openStopwatch(): Stopwatch {
  let ms = 0;
  return {
    async time(work) {
      const from = performance.now();
      try {
        return await work();
      } finally {
        ms += performance.now() - from;
      }
    },
    total: () => ms,
  };
}
