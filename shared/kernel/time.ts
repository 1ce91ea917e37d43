/**
 * The time by which business is judged, in Unix milliseconds. In a running process it is MongoDB's time through
 * a measured offset (`shared/infra/mongo/server-clock.ts`), never the bare process clock: two front doors whose
 * clocks differ by minutes must judge one deadline alike.
 */
export type Now = () => number;

export const SECOND = 1_000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

const RFC_3339 =
  /^(\d{4})-(\d{2})-(\d{2})[Tt]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/;

/** The years that ISO 8601 writes with four digits and no sign. */
const FIRST_INSTANT = Date.parse('0001-01-01T00:00:00.000Z');
/** The end of the year 9999. */
export const LAST_INSTANT = Date.parse('9999-12-31T23:59:59.999Z');

/**
 * A timestamp as the API takes it, RFC 3339 (section 5.6) with a zone and a real date, as a Date of whole milliseconds
 * (more places are cut off); null when the text is none. Its instant lies in the years 1–9999 of UTC, since it is written back
 * in UTC with a four-digit year. A leap second (`:60`) is refused: JavaScript's clock has none, and folding it would move a deadline.
 */
export function parseInstant(text: string): Date | null {
  const match = RFC_3339.exec(text);
  if (match === null) return null;
  const [year, month, day] = [Number(match[1]), Number(match[2]), Number(match[3])];
  if (year < 1 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month)) return null;
  const instant = Date.parse(text.toUpperCase());
  return instant >= FIRST_INSTANT && instant <= LAST_INSTANT ? new Date(instant) : null;
}

/** For a timestamp whose shape has been validated; an absent one stays null. Throws on a text that is none. */
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

/** 2^40 ms is 35 years: past that any cap has bound long ago, and the power must not reach Infinity. */
const MAX_DOUBLINGS = 40;

/**
 * How long to wait before the next try, in milliseconds.
 *
 * `attempt` is how many tries were made, 1 after the first failure: the full wait is `baseMs × 2^(attempt − 1)`,
 * never more than `capMs`. Up to a quarter of it is taken off at random, so that what failed together does not
 * come back together. The result therefore lies in `[0.75 × full, full]` and is a whole number: a cap is a
 * promise to operators, and jitter never breaks it.
 *
 * `random` is in [0, 1). Numbers out of range are pulled into it, because a wrong wait is better than none.
 */
export function backoff(input: { baseMs: number; capMs: number; attempt: number; random: number }): number {
  const baseMs = Math.max(0, input.baseMs);
  const capMs = Math.max(0, input.capMs);
  const doublings = Math.max(0, Math.floor(input.attempt) - 1);
  const full = Math.floor(Math.min(capMs, baseMs * 2 ** Math.min(doublings, MAX_DOUBLINGS)));
  const random = Math.min(1, Math.max(0, input.random));
  return full - Math.floor((full * random) / 4);
}
