import { DAY, HOUR, SECOND } from '#shared/kernel/time.ts';

/**
 * Time (ms) after a sign-in during which an account and the address of that sign-in are a known
 * pair. Only its own failures count against a known pair. All other login attempts from an address
 * are those of strangers.
 */
export const KNOWN_FOR_MS = 30 * DAY;
/** Time (ms) after which failed and successful logins of an address are forgotten. */
const LOGINS_WINDOW_MS = 24 * HOUR;
/** The same for registrations. */
const REGISTRATIONS_WINDOW_MS = HOUR;

/**
 * Accounts that may have failed from an address without a success since, in addition to those that
 * succeeded from it.
 */
const FREE_ACCOUNTS = 50;
/**
 * Failed accounts up to which strangers beyond the allowance have the short spacing, and above
 * which they have the long one.
 */
const MANY_ACCOUNTS = 500;
const SHORT_SPACING_MS = SECOND;
const LONG_SPACING_MS = 10 * SECOND;
/**
 * Accounts that may register from an address within an hour at any pace, and e-mails or phones that
 * may be found taken.
 */
const FREE_REGISTRATIONS = 60;

/** Counts of one address. An e-mail without an account counts as an account. */
export interface AddressCounts {
  /** Accounts with a failed request from the address and no success from it since. */
  failed: number;
  /** Accounts with a success from the address. */
  succeeded: number;
}

/** How one kind of requests of an address is slowed. */
export interface AddressRule {
  /** Time (ms) after which an outcome is forgotten. */
  windowMs: number;
  /** Returns the least time (ms) between two verified requests; 0 within the allowance. */
  spacingOf(counts: AddressCounts): number;
}

/**
 * Returns the least time (ms) between two verified login attempts of strangers from one address; 0
 * within the allowance.
 *
 * Counting accounts instead of failures separates a school from a sprayer: pupils who mistype
 * succeed soon and leave the count, and each success raises the allowance. Strangers are slowed and
 * never refused for long, so no address can be locked. A sprayer has at most 9,096 verified
 * attempts on its first day, and 8,640 on any later one.
 */
export function spacingOf({ failed, succeeded }: AddressCounts): number {
  if (failed <= FREE_ACCOUNTS + succeeded) return 0;
  return failed <= MANY_ACCOUNTS ? SHORT_SPACING_MS : LONG_SPACING_MS;
}

/**
 * Returns the least time (ms) between two registrations from one address; 0 within the allowance.
 * A registration fails if its e-mail or phone is taken.
 *
 * A school may register behind one address, so accepted registrations alone never have the long
 * spacing: 2,000 take 33 minutes. Beyond 500 taken ones a caller is probing which accounts exist.
 */
export function registrationSpacingOf({ failed, succeeded }: AddressCounts): number {
  if (failed < FREE_REGISTRATIONS && succeeded < FREE_REGISTRATIONS) return 0;
  return failed <= MANY_ACCOUNTS ? SHORT_SPACING_MS : LONG_SPACING_MS;
}

export const STRANGERS: AddressRule = { windowMs: LOGINS_WINDOW_MS, spacingOf };
export const REGISTRATIONS: AddressRule = { windowMs: REGISTRATIONS_WINDOW_MS, spacingOf: registrationSpacingOf };
