import { setTimeout as delay } from 'node:timers/promises';
import { mulberry32 } from '#scripts/sandbox/random.ts';

export type Chance = ReturnType<typeof openChance>;

/** Opens random numbers by the seed of FAULTS_SEED, otherwise a fresh one, and prints it. Processes and networks still vary. */
export function openChance(say: (line: string) => void) {
  const seed = Number(process.env.FAULTS_SEED ?? Math.floor(Math.random() * 2 ** 31));
  say(`FAULTS_SEED=${seed}`);
  const next = mulberry32(seed);
  const below = (limit: number) => Math.floor(next() * limit);
  return {
    seed,
    /** Returns a number, 0 ≤ x < 1. */
    next,
    /** Returns a whole number, 0 ≤ x < limit. */
    below,
    /** Waits for 0 to `mostMs` milliseconds. */
    async pause(mostMs: number): Promise<void> {
      const ms = below(mostMs + 1);
      if (ms > 0) await delay(ms);
    },
    pick<T>(from: readonly T[]): T {
      const picked = from[below(from.length)];
      if (picked === undefined) throw new Error('nothing to pick from');
      return picked;
    },
  };
}

/** Returns `full` if FAULTS_FULL=1, otherwise `small`, which is fast enough for every commit. */
export function scaled(small: number, full: number): number {
  return process.env.FAULTS_FULL === '1' ? full : small;
}
