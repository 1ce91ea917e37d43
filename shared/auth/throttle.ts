import { HOUR, MINUTE, SECOND } from '#shared/kernel/time.ts';

/** From this many consecutive failed logins with one e-mail on, each failure causes a wait. The e-mail may be unknown. */
export const FREE_FAILURES = 5;
/** Maximum of verified login attempts with one e-mail since its last success. Further ones are refused until QUIET_MS is over. */
export const MAX_VERIFIED = 100;
/** Ms after the last verified login attempt after which the counts of an e-mail start again at 0. */
export const QUIET_MS = 24 * HOUR;

/** A wait of this length (ms) or longer is a lockout, which is a security event: from the 11th failure on. */
const LOCKOUT_MS = MINUTE;
const FIRST_WAIT_MS = SECOND;
const MAX_WAIT_MS = 15 * MINUTE;

/** Counts of the login attempts with one e-mail, or with the device tokens of one session. */
export interface Throttle {
  /** A digest: users sometimes type a password or an unknown address into the e-mail field. */
  _id: string;
  /** Login attempts since the last success. Each is counted before its password is verified. */
  tries: number;
  /** Those of `tries` whose password was wrong. */
  failures: number;
  /** Until then every login attempt is refused, even one with the correct password. */
  blockedUntil: Date | null;
  lastTryAt: Date;
}

/** Returns true if so many consecutive failures cause a wait of LOCKOUT_MS or longer. */
export function isLockout(failures: number): boolean {
  return waitAfter(failures) >= LOCKOUT_MS;
}

/** Returns the ms to wait after so many consecutive failures: 0 below FREE_FAILURES, then 1 s, doubling up to 15 min. */
export function waitAfter(failures: number): number {
  if (failures < FREE_FAILURES) return 0;
  // The exponent is bounded so that the wait stays finite for any count.
  return Math.min(FIRST_WAIT_MS * 2 ** Math.min(failures - FREE_FAILURES, 30), MAX_WAIT_MS);
}
