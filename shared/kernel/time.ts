/**
 * Returns the current time for rules and deadlines, in Unix milliseconds. In a running process it is MongoDB's time, computed
 * with a measured offset (`shared/infra/mongo/server-clock.ts`), never the bare process clock. Two front doors whose clocks
 * differ by minutes must decide alike about one deadline.
 */
export type Now = () => number;

export const SECOND = 1_000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

const RFC_3339 =
  /^(\d{4})-(\d{2})-(\d{2})[Tt]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/;

/** The start of the year 1. ISO 8601 writes the years 1–9999 with four digits and no sign. */
const FIRST_INSTANT = Date.parse('0001-01-01T00:00:00.000Z');
/** The last millisecond of the year 9999. */
export const LAST_INSTANT = Date.parse('9999-12-31T23:59:59.999Z');

/**
 * Parses a timestamp of the API: RFC 3339 (section 5.6) with a zone and a real date. Returns a Date of whole milliseconds
 * (further digits are cut off), or null if the text is not such a timestamp.
 *
 * The instant must be in the years 1–9999 of UTC, because it is written back in UTC with a four-digit year. A leap second
 * (`:60`) is refused: JavaScript has no leap seconds, and moving it to a neighbouring second would move a deadline.
 */
export function parseInstant(text: string): Date | null {
  const match = RFC_3339.exec(text);
  if (match === null) return null;
  const [year, month, day] = [Number(match[1]), Number(match[2]), Number(match[3])];
  if (year < 1 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month)) return null;
  const instant = Date.parse(text.toUpperCase());
  return instant >= FIRST_INSTANT && instant <= LAST_INSTANT ? new Date(instant) : null;
}

/** Returns the Date of a timestamp that a schema has validated, or null if it is absent. Throws if the text is not a timestamp. */
export function instantOf(text: string | null | undefined): Date | null {
  if (text == null) return null;
  const date = parseInstant(text);
  if (date === null) throw new Error('not a validated timestamp');
  return date;
}

function daysIn(year: number, month: number): number {
  if (month === 2) return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 29 : 28;
  return [4, 6, 9, 11].includes(month) ? 30 : 31;
}

/** Upper bound of the exponent, so that the power never reaches Infinity. 2^40 ms is 35 years, longer than any cap. */
const MAX_DOUBLINGS = 40;

/**
 * Returns the wait before the next attempt, in whole milliseconds.
 *
 * `attempt` is the number of attempts made so far, 1 after the first failure. The full wait is `baseMs × 2^(attempt − 1)`,
 * at most `capMs`. Jitter lengthens it by up to a quarter, so that commands that failed together do not run again together.
 * The result is in `[full, min(1.25 × full, capMs)]`: jitter never shortens a wait and never exceeds the cap.
 *
 * `random` is in [0, 1). Numbers out of range are clamped, because a wrong wait is better than no wait.
 */
export function backoff(input: { baseMs: number; capMs: number; attempt: number; random: number }): number {
  const baseMs = Math.max(0, input.baseMs);
  const capMs = Math.max(0, input.capMs);
  const doublings = Math.max(0, Math.floor(input.attempt) - 1);
  const full = Math.floor(Math.min(capMs, baseMs * 2 ** Math.min(doublings, MAX_DOUBLINGS)));
  const random = Math.min(1, Math.max(0, input.random));
  return Math.min(Math.floor(capMs), full + Math.floor((full * random) / 4));
}

/**
 * Returns a wait (ms) that a service has requested, lengthened by up to a quarter and by a second at most. The service names the same moment to
 * all callers, and they must not return in it together. `random` is in [0, 1).
 */
export function spreadWait(waitMs: number, random: number): number {
  return waitMs + Math.floor(random * Math.min(waitMs / 4, SECOND));
}
