/** Random numbers from a seed, so that a run that found something can be had again. */
export interface Chance {
  readonly seed: number;
  /** 0 ≤ x < 1. */
  next(): number;
  /** A whole number, 0 ≤ x < below. */
  below(below: number): number;
  pick<T>(from: readonly T[]): T;
}

/** FAULTS_SEED repeats an earlier run, as far as processes and networks let themselves be repeated. */
export function openChance(say: (line: string) => void, env: NodeJS.ProcessEnv = process.env): Chance {
  const seed = Number(env.FAULTS_SEED ?? Math.floor(Math.random() * 2 ** 31));
  say(`FAULTS_SEED=${seed}`);
  let state = seed >>> 0;

  // mulberry32: four lines, and good enough to choose moments.
  function next(): number {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }
  const below = (limit: number) => Math.floor(next() * limit);
  return {
    seed,
    next,
    below,
    pick<T>(from: readonly T[]): T {
      const picked = from[below(from.length)];
      if (picked === undefined) throw new Error('nothing to pick from');
      return picked;
    },
  };
}

/** FAULTS_FULL=1 runs the numbers that the issue names; without it a run is small enough for every commit. */
export function scaled(small: number, full: number, env: NodeJS.ProcessEnv = process.env): number {
  return env.FAULTS_FULL === '1' ? full : small;
}
