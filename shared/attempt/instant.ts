const RFC_3339 = /^(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))$/;
const MINUTE_MS = 60_000;

/**
 * An RFC 3339 timestamp with a zone, as a Date of whole milliseconds (more places are cut off); null when the text
 * is none: also for a date that does not exist and for years outside 1–9999, where ISO 8601 would grow a sign.
 * A leap second counts as the second after it, and only where the clock can show one.
 */
export function parseInstant(text: string): Date | null {
  const match = RFC_3339.exec(text);
  if (match === null) return null;
  const [year, month, day, hour, minute, second] = match.slice(1, 7).map(Number) as SixNumbers;
  const offset = (Number(match[9] ?? 0) * 60 + Number(match[10] ?? 0)) * (match[8] === '-' ? -1 : 1);
  if (hour > 23 || minute > 59 || second > 60) return null;
  if (Number(match[9] ?? 0) > 23 || Number(match[10] ?? 0) > 59) return null;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  // No two digits of a wrong month or day lead back to the month that was written.
  if (date.getUTCMonth() !== month - 1) return null;
  const milliseconds = Number((match[7] ?? '').padEnd(3, '0').slice(0, 3));
  date.setUTCHours(hour, minute, Math.min(second, 59), milliseconds);
  date.setTime(date.getTime() - offset * MINUTE_MS);
  if (second === 60) {
    if (date.getUTCHours() !== 23 || date.getUTCMinutes() !== 59) return null;
    date.setTime(date.getTime() + 1_000);
  }
  return date.getUTCFullYear() >= 1 && date.getUTCFullYear() <= 9999 ? date : null;
}

type SixNumbers = [number, number, number, number, number, number];

/** For a timestamp whose shape has been validated; an absent one stays null. Throws on a text that is none. */
export function instantOf(text: string | null | undefined): Date | null {
  if (text == null) return null;
  const date = parseInstant(text);
  if (date === null) throw new Error('not a validated timestamp');
  return date;
}
