/** One operation of each side. Both return their own figure (milliseconds, or a rate), so that each may prepare without being timed. */
export interface Contest {
  ours(): Promise<number>;
  reference(): Promise<number>;
  rounds: number;
  /** Rounds that are not counted, because caches, connections and the JIT are still cold. */
  warmUp: number;
  step(done: number, of: number): void;
}

/**
 * Runs both sides in turn, so that other load of the machine affects both equally. The order changes with every round, so that neither
 * side always profits from the caches of the other. Returns the figures of the counted rounds.
 */
export async function alternate(contest: Contest): Promise<{ ours: number[]; reference: number[] }> {
  const ours: number[] = [];
  const reference: number[] = [];
  const total = contest.warmUp + contest.rounds;
  for (let round = 0; round < total; round++) {
    const counts = round >= contest.warmUp;
    const runOurs = async () => {
      const ms = await contest.ours();
      if (counts) ours.push(ms);
    };
    const runReference = async () => {
      const ms = await contest.reference();
      if (counts) reference.push(ms);
    };
    for (const run of round % 2 === 0 ? [runOurs, runReference] : [runReference, runOurs]) await run();
    contest.step(round + 1, total);
  }
  return { ours, reference };
}

/** Returns the milliseconds that `work` takes. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const from = performance.now();
  await work();
  return performance.now() - from;
}

/** Adds up the time of selected steps. */
export interface Stopwatch {
  /** Runs `work`, adds its milliseconds, and returns its result. */
  time<Result>(work: () => Promise<Result>): Promise<Result>;
  /** Returns the milliseconds so far. */
  total(): number;
}

/** Opens a stopwatch at 0. */
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
