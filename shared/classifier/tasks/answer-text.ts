import type { FaultDetail } from '#shared/kernel/errors.ts';
import { escapePointer } from '#shared/kernel/json.ts';
import { foreignTextFault, isBlank } from '#shared/kernel/text.ts';

/**
 * Returns a text with the commands of LaTeX whose backslash JSON has certainly eaten. A model that writes `\frac` with one backslash has written
 * JSON's form feed, and no text of a question contains one, nor a backspace.
 */
export function withCommands(text: string): string {
  return text.replace(/[\f\b](?=[A-Za-z])/g, (eaten) => (eaten === '\f' ? '\\f' : '\\b'));
}

/** Commands without their first letter, which JSON has read as a tab, a carriage return or a line feed. */
const EATEN: Readonly<Record<string, RegExp>> = {
  '\t': /^(?:heta|imes|ext(?:bf|it|rm)?|an|anh|au|riangle(?:left|right)?|o|op|ilde|frac|herefore|hinspace|ag|hickapprox)(?![A-Za-z])/,
  '\r': /^(?:ight(?:arrow|leftharpoons)?|ho|angle|ceil|floor|oot|m|vert|Vert|eal|box)(?![A-Za-z])/,
  '\n': /^(?:eq|e|eg|u|abla|ot|otin|i|leq|geq|parallel|mid|subseteq|supseteq|exists|atural|earrow|warrow|ewline|olimits|onumber)(?![A-Za-z])/,
};

/** Returns true if a formula of the text, from one dollar sign to the next, has such a character where the model has written a command. */
function hasEatenCommand(text: string): boolean {
  let isFormula = false;
  let isDisplayed = false;
  const marks = /\\[\s\S]|\$\$?|[\t\r\n]/g;
  for (let mark = marks.exec(text); mark !== null; mark = marks.exec(text)) {
    const [character] = mark;
    if (character.startsWith('$')) {
      isFormula = !isFormula;
      isDisplayed = character === '$$';
      continue;
    }
    const rest = text.slice(marks.lastIndex, marks.lastIndex + 24);
    // A displayed formula has lines of its own. Without this, one that begins with `u` or `i` would pass for `\nu` or `\ni`, and be refused.
    const isLine = isDisplayed && character === '\n' && /^[a-z](?![A-Za-z])/.test(rest);
    if (isFormula && !isLine && EATEN[character]?.test(rest) === true) return true;
  }
  return false;
}

/**
 * Returns the reason why a text of a model cannot be shown, stored or sent on, or null. Routes of this product would refuse it, or a reader would
 * find `heta` where the model meant `\theta`.
 */
function textFault(text: string): string | null {
  const fault = foreignTextFault(text);
  if (fault !== null) return fault;
  if (/[^\P{Cc}\t\n\r]/u.test(text)) return 'must not contain control characters';
  // The schemas of the tasks refuse white space; this text has other characters, which show nothing either.
  if (/\S/.test(text) && isBlank(text)) return 'must not be blank';
  if (hasEatenCommand(text))
    return 'must have each backslash of LaTeX written twice: one of them is missing in a formula';
  return null;
}

/** Digits that a double returns as they were written, beyond its largest safe integer. */
const MAX_DIGITS_BEYOND = 15;

/** Returns the reason why routes of this product would refuse a number, or null. */
function numberFault(value: number): string | null {
  if (!Number.isFinite(value)) return 'must be a finite number';
  if (Math.abs(value) <= Number.MAX_SAFE_INTEGER) return null;
  const [digits = ''] = value.toExponential().split('e');
  return digits.replace(/\D/g, '').length > MAX_DIGITS_BEYOND
    ? `must have at most ${MAX_DIGITS_BEYOND} significant digits beyond ±${Number.MAX_SAFE_INTEGER}`
    : null;
}

/** Returns the faults of all texts and numbers in a model's answer, whatever its schema allows. */
export function valueFaults(value: unknown, path = ''): FaultDetail[] {
  if (typeof value === 'string') {
    const message = textFault(value);
    return message === null ? [] : [{ path, message }];
  }
  if (typeof value === 'number') {
    const message = numberFault(value);
    return message === null ? [] : [{ path, message }];
  }
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, member]) => [
    ...(textFault(name) === null ? [] : [{ path, message: 'must have readable names of its members' }]),
    ...valueFaults(member, `${path}/${escapePointer(name)}`),
  ]);
}
