/** A separator between the parts of a written date. */
const SEPARATOR = /[-./_\s]+/;
const DAYS_OF_MONTH = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/**
 * Returns true if the text is a date alone, with or without separators: `20102008`, `20-10-2008`, `2008/10/20`, `20.10.08`. Many
 * passwords of pupils are their birth date, and there are only some 40,000 of them in a century.
 */
export function isDateAlone(text: string): boolean {
  const written = text.trim().split(SEPARATOR);
  if (written.length === 3) return isDate(written);
  const [digits] = written;
  if (written.length !== 1 || digits === undefined) return false;
  return [
    [2, 2, 4],
    [4, 2, 2],
    [2, 2, 2],
  ].some(([first = 0, second = 0, third = 0]) => {
    if (digits.length !== first + second + third) return false;
    return isDate([digits.slice(0, first), digits.slice(first, first + second), digits.slice(first + second)]);
  });
}

/** Returns true if three groups of digits are a date in the order of Vietnam, of the USA or of ISO 8601. */
function isDate([first = '', second = '', third = '']: readonly string[]): boolean {
  return (isYear(third) && (isDay(first, second) || isDay(second, first))) || (isYear(first) && isDay(third, second));
}

function isYear(text: string): boolean {
  return /^(?:\d\d|(?:19|20)\d\d)$/.test(text);
}

function isDay(day: string, month: string): boolean {
  if (!/^\d{1,2}$/.test(day) || !/^\d{1,2}$/.test(month)) return false;
  return Number(day) >= 1 && Number(day) <= (DAYS_OF_MONTH[Number(month) - 1] ?? 0);
}

/** Returns true if the text consists of one repeated character: `aaaaaaaa`. */
export function isOneCharacter(text: string): boolean {
  const characters = [...text];
  return characters.length > 1 && new Set(characters).size === 1;
}

/** Returns true if each character is the next one, or each the one before: `12345678`, `hgfedcba`, `1234567890`. */
export function isRun(text: string): boolean {
  const points = [...text].map((character) => character.codePointAt(0) ?? 0);
  if (points.length < 3) return false;
  return [1, -1].some((step) =>
    points.every((point, index) => index === 0 || follows(points[index - 1] ?? 0, point, step)),
  );
}

const ZERO = 48;
const NINE = 57;

/** Returns true if `point` is one step from `before`. 0 follows 9, as on a keyboard. */
function follows(before: number, point: number, step: number): boolean {
  if (point - before === step) return true;
  return step === 1 ? before === NINE && point === ZERO : before === ZERO && point === NINE;
}
