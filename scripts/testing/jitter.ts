import { setTimeout as delay } from 'node:timers/promises';

/** A random order of events that a failing run can be told by: pass its seed in RACE_SEED. */
export interface Jitter {
  seed: number;
  /** In [0, 1). */
  next(): number;
  /** Lets a random moment pass, up to `mostMs`, often none at all. */
  pause(mostMs: number): Promise<void>;
}

export function openJitter(
  seed: number = Number(process.env.RACE_SEED ?? Math.floor(Math.random() * 2 ** 31)),
): Jitter {
  let state = seed >>> 0;
  const next = () => {
    // Mulberry32.
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    seed,
    next,
    async pause(mostMs) {
      const ms = Math.floor(next() * (mostMs + 1));
      if (ms > 0) await delay(ms);
    },
  };
}
