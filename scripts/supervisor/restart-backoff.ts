/** What is remembered of a process between its lives. */
export interface RestartHistory {
  /** Lives in a row that ended at once. */
  readonly shortLives: number;
}

export const FIRST_LIFE: RestartHistory = { shortLives: 0 };

const SHORT_LIFE_MS = 5_000;
const SETTLED_LIFE_MS = 60_000;
const FIRST_DELAY_MS = 100;
const LONGEST_DELAY_MS = 30_000;

/**
 * When to start a process again that lived `livedMs`. A process that had come up returns within a second, however often it
 * is killed; only one that dies at once is slowed down (1, 2, 4 … 30 s), so that it neither fills the log nor eats the machine.
 */
export function afterDeath(history: RestartHistory, livedMs: number): { history: RestartHistory; delayMs: number } {
  if (livedMs >= SETTLED_LIFE_MS) return { history: FIRST_LIFE, delayMs: FIRST_DELAY_MS };
  if (livedMs >= SHORT_LIFE_MS) {
    const shortLives = Math.min(history.shortLives, 1);
    return { history: { shortLives }, delayMs: delayAfter(shortLives) };
  }
  return { history: { shortLives: history.shortLives + 1 }, delayMs: delayAfter(history.shortLives) };
}

function delayAfter(shortLives: number): number {
  if (shortLives === 0) return FIRST_DELAY_MS;
  return Math.min(1_000 * 2 ** Math.min(shortLives - 1, 10), LONGEST_DELAY_MS);
}
