const RFC_3339 =
  /^(\d{4})-(\d{2})-(\d{2})[Tt]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/;

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
  return instant >= FIRST && instant <= LAST ? new Date(instant) : null;
}

/** For a timestamp whose shape has been validated; an absent one stays null. Throws on a text that is none. */
export function instantOf(text: string | null | undefined): Date | null {
  if (text == null) return null;
  const date = parseInstant(text);
  if (date === null) throw new Error('not a validated timestamp');
  return date;
}

const FIRST = Date.parse('0001-01-01T00:00:00.000Z');
const LAST = Date.parse('9999-12-31T23:59:59.999Z');

function daysIn(year: number, month: number): number {
  if (month === 2) return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 29 : 28;
  return [4, 6, 9, 11].includes(month) ? 30 : 31;
}
