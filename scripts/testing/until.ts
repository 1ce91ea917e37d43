import { setTimeout as delay } from 'node:timers/promises';
import { isOutage } from '#infra/mongo/faults.ts';

type Falsy = false | null | undefined | 0 | '';

/** Polls `condition` every few milliseconds until it is truthy, and returns its value. @throws Error after `withinMs`, default a minute */
export async function until<T>(
  what: string,
  condition: () => T | Promise<T>,
  withinMs = 60_000,
): Promise<Exclude<T, Falsy>> {
  const giveUpAt = performance.now() + withinMs;
  for (;;) {
    const seen = await condition();
    if (seen) return seen as Exclude<T, Falsy>;
    if (performance.now() > giveUpAt) throw new Error(`never came true: ${what}`);
    await delay(5);
  }
}

const PACE_MS = 100;
const TIMEOUT_MS = 90_000;

/** Like `until`, but polls ten times a second, which spares the database of the cluster under test, and waits up to 90 s. */
export function untilSlowly(what: string, condition: () => Promise<boolean>): Promise<boolean> {
  return until(
    what,
    async () => {
      const seen = await condition();
      if (!seen) await delay(PACE_MS);
      return seen;
    },
    TIMEOUT_MS,
  );
}

/**
 * Repeats `work` as long as it fails as an outage, and returns its result. On a busy machine a transaction may exceed its time limit,
 * and the product then answers "try again".
 */
export async function despiteOutages<T>(work: () => Promise<T>): Promise<T> {
  const giveUpAt = performance.now() + TIMEOUT_MS;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!isOutage(error) || performance.now() > giveUpAt) throw error;
      await delay(PACE_MS);
    }
  }
}

/** A promise that a test resolves by `open`: the code under test waits for `opened`. */
export interface Gate {
  opened: Promise<void>;
  open(): void;
}

/** Returns a closed gate. */
export function gate(): Gate {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}
