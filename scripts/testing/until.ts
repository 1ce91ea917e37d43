import { setTimeout as delay } from 'node:timers/promises';

type Falsy = false | null | undefined | 0 | '';

/** Looks every few milliseconds until `condition` is truthy, and gives what it was. Throws when that never happens. */
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
const PATIENCE_MS = 90_000;

/** Like `until`, at a pace that leaves the database to the cluster under test, and with the patience that faults ask for. */
export function patiently(what: string, condition: () => Promise<boolean>): Promise<boolean> {
  return until(
    what,
    async () => {
      const seen = await condition();
      if (!seen) await delay(PACE_MS);
      return seen;
    },
    PATIENCE_MS,
  );
}

/** A door that somebody else opens: what waits at it and when it is opened are the test's to say. */
export interface Gate {
  opened: Promise<void>;
  open(): void;
}

export function gate(): Gate {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}
