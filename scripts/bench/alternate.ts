/** One operation of each side; both give the figure that counts (milliseconds, or a rate), so that each may prepare untimed. */
export interface Contest {
  ours(): Promise<number>;
  reference(): Promise<number>;
  rounds: number;
  /** Rounds before those that count: caches, connections and the JIT. */
  warmUp: number;
  step(done: number, of: number): void;
}

/**
 * Runs both sides in turn, so that whatever else the machine does hits both alike, and changes who goes first at
 * every round, so that neither always finds the caches of the other.
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

/** Milliseconds that `work` takes. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const from = performance.now();
  await work();
  return performance.now() - from;
}

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
