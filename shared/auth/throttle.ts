import { HOUR, MINUTE, SECOND } from '#shared/kernel/time.ts';

/** Consecutive failures of an e-mail, known or not, that cost no wait. */
export const FREE_FAILURES = 5;
/** Consecutive tries of an e-mail that are judged at all, however many come at once. */
export const MAX_JUDGED = 100;
/** Ms without a judged try after which an e-mail begins anew. */
export const QUIET_MS = 24 * HOUR;

const FIRST_WAIT_MS = SECOND;
const LONGEST_WAIT_MS = 15 * MINUTE;

/** How the guesses at one e-mail went. */
export interface Throttle {
  /** A digest of the e-mail: people mistype addresses that are nobody's, and passwords where the address belongs. */
  _id: string;
  /** Tries that were judged since the last success; counted before they are judged. */
  tries: number;
  /** Of these, the wrong ones. */
  failures: number;
  /** Until then every try is refused, the right password's too. */
  blockedUntil: Date | null;
  lastTryAt: Date;
}

/** Ms to wait after so many consecutive failures: none at first, then 1 s doubling to 15 min. */
export function waitAfter(failures: number): number {
  if (failures < FREE_FAILURES) return 0;
  // The exponent is bounded, so that no count makes it Infinity.
  return Math.min(FIRST_WAIT_MS * 2 ** Math.min(failures - FREE_FAILURES, 30), LONGEST_WAIT_MS);
}
