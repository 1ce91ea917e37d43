import { DAY, HOUR, SECOND } from '#shared/kernel/time.ts';

/**
 * Time (ms) after a sign-in during which an account and the address of that sign-in are a known pair. Only its own failures count
 * against a known pair. All other login attempts from an address are those of strangers.
 */
export const KNOWN_FOR_MS = 30 * DAY;
/** Time (ms) after which failures and successes of an address are forgotten. */
export const ADDRESS_WINDOW_MS = 24 * HOUR;

/** Accounts that may have failed from an address without a success since, in addition to those that succeeded from it. */
const FREE_ACCOUNTS = 50;
/** Failed accounts up to which strangers beyond the allowance have the short spacing, and above which they have the long one. */
const MANY_ACCOUNTS = 500;
const SHORT_SPACING_MS = SECOND;
const LONG_SPACING_MS = 10 * SECOND;

/** Counts of one address in the last 24 hours. An e-mail without an account counts as an account. */
export interface AddressCounts {
  /** Accounts with a failed login attempt from the address and no success from it since. */
  failed: number;
  /** Accounts that signed in from the address. */
  succeeded: number;
}

/**
 * Returns the least time (ms) between two verified login attempts of strangers from one address; 0 within the allowance.
 *
 * Counting accounts instead of failures separates a school from a sprayer: pupils who mistype succeed soon and leave the count,
 * and each success raises the allowance. Strangers are slowed and never refused for long, so no address can be locked.
 * A sprayer has at most 9,096 verified attempts on its first day, and 8,640 on any later one.
 */
export function spacingOf({ failed, succeeded }: AddressCounts): number {
  if (failed <= FREE_ACCOUNTS + succeeded) return 0;
  return failed <= MANY_ACCOUNTS ? SHORT_SPACING_MS : LONG_SPACING_MS;
}
