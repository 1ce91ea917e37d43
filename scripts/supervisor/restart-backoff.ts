/** History of a process over its restarts. */
export interface RestartHistory {
  /** Number of consecutive lives that ended within 5 s. */
  readonly shortLives: number;
}

export const FIRST_LIFE: RestartHistory = { shortLives: 0 };

const SHORT_LIFE_MS = 5_000;
const SETTLED_LIFE_MS = 60_000;
const FIRST_DELAY_MS = 100;
const MAX_DELAY_MS = 30_000;

/**
 * Returns the delay before the restart of a process that lived `livedMs`, and its new history. A process that lived 5 s or longer restarts
 * within a second. For repeated early deaths the delay grows (1, 2, 4 … 30 s), which spares the log and the machine.
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
  return Math.min(1_000 * 2 ** Math.min(shortLives - 1, 10), MAX_DELAY_MS);
}
