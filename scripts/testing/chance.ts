import { setTimeout as delay } from 'node:timers/promises';
import { mulberry32 } from '#scripts/mulberry32.ts';

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
  const seed = Number(env.FAULTS_SEED ?? freshSeed());
  say(`FAULTS_SEED=${seed}`);
  const next = mulberry32(seed);
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

/** A random order of events that a failing run can be told by: pass its seed in RACE_SEED. */
export interface Jitter {
  seed: number;
  /** In [0, 1). */
  next(): number;
  /** Lets a random moment pass, up to `mostMs`, often none at all. */
  pause(mostMs: number): Promise<void>;
}

export function openJitter(seed: number = Number(process.env.RACE_SEED ?? freshSeed())): Jitter {
  const next = mulberry32(seed);
  return {
    seed,
    next,
    async pause(mostMs) {
      const ms = Math.floor(next() * (mostMs + 1));
      if (ms > 0) await delay(ms);
    },
  };
}

function freshSeed(): number {
  return Math.floor(Math.random() * 2 ** 31);
}
