import { type Schema, typesOf } from '#shared/classifier/schema.ts';
import type { FaultDetail } from '#shared/kernel/errors.ts';
import { escapePointer, isDeeperThan, membersOf } from '#shared/kernel/json.ts';
import { countMembers } from '#shared/kernel/large-json.ts';
import { closingQuote, membersIn, parseJsonText } from '#shared/kernel/parse-json.ts';
import { foreignTextFault, isBlank } from '#shared/kernel/text.ts';

/** A reasoning block that some models write before their answer. A server's template may have swallowed its first mark. */
const REASONING = /^(?:\s*<(think|thinking|reasoning|thought)>[\s\S]*?<\/\1>)+/i;
const END_OF_REASONING = /<\/(?:think|thinking|reasoning|thought)>/i;

/**
 * Returns the one JSON value that a model has written; undefined if it has written no value or several. Models that run without a schema write reasoning before it, a Markdown fence round it and sentences beside it.
 */
function jsonIn(text: string): unknown {
  const whole = text.replace(/^\uFEFF/, '').trim();
  const bare = parsed(whole);
  if (bare !== undefined) return bare;

  const answered = withoutReasoning(whole);
  const fenced = parsed(withoutFence(answered));
  if (fenced !== undefined) return fenced;

  const [only, ...others] = objectsIn(answered);
  return others.length === 0 ? only : undefined;
}

function withoutFence(text: string): string {
  const isFenced = text.length > 6 && text.startsWith('```') && text.endsWith('```');
  return isFenced ? text.slice(3, -3).replace(/^[a-z]*/i, '') : text;
}

function withoutReasoning(text: string): string {
  const rest = text.replace(REASONING, '');
  const end = rest === text ? END_OF_REASONING.exec(text) : null;
  return (end === null ? rest : text.slice(end.index + end[0].length)).trim();
}

/** Returns the JSON objects between the sentences of a text. Braces that hold no JSON are part of a sentence. */
function objectsIn(text: string): unknown[] {
  const found: unknown[] = [];
  for (let from = text.indexOf('{'); from !== -1; ) {
    const to = endOfObject(text, from);
    if (to === -1) return found;
    const value = parsed(text.slice(from, to));
    if (value !== undefined) found.push(value);
    from = text.indexOf('{', to);
  }
  return found;
}

/** Returns the place behind the brace that closes the one at `from`, or -1. Braces inside of strings do not count. */
function endOfObject(text: string, from: number): number {
  let depth = 0;
  for (let at = from; at < text.length; at += 1) {
    if (text[at] === '"') at = closingQuote(text, at);
    if (at === -1) return -1;
    if (text[at] === '{') depth += 1;
    if (text[at] === '}') depth -= 1;
    if (depth === 0) return at + 1;
  }
  return -1;
}

/** Deepest nesting of an answer: more than any schema has, and little enough for functions that call themselves. */
export const MAX_ANSWER_DEPTH = 200;

/** Returns the value of a JSON text. A name that is written twice makes it unusable: either value may be meant. */
function parsed(text: string): unknown {
  try {
    const value = parseJsonText(text);
    return isDeeperThan(MAX_ANSWER_DEPTH, value) || countMembers(value) < membersIn(text) ? undefined : value;
  } catch {
    return undefined;
  }
}

/**
 * Returns a text with the commands of LaTeX whose backslash JSON has certainly eaten. A model that writes `\frac` with one backslash has written
 * JSON's form feed, and no text of a question contains one, nor a backspace.
 */
function withCommands(text: string): string {
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

/**
 * Returns the JSON value in a model's text as its task reads it, or undefined if the text has no such value:
 * - without a null for an optional field whose schema does not admit null, which wires without optional fields request;
 * - with a word of a fixed list as the list writes it, whatever case the model has chosen;
 * - with those commands of LaTeX that JSON has eaten for certain.
 */
export function readAnswer(text: string, schema: Schema): unknown {
  return asRead(jsonIn(text), schema);
}

function asRead(value: unknown, schema: Schema): unknown {
  if (typeof value === 'string') return inList(withCommands(value), schema.enum);
  if (Array.isArray(value)) return value.map((item) => asRead(item, membersOf(schema.items)));
  if (typeof value !== 'object' || value === null) return value;
  const properties = membersOf(schema.properties);
  const required = Array.isArray(schema.required) ? schema.required : [];
  const kept = Object.entries(value).filter(
    ([name, member]) =>
      member !== null || !(name in properties) || required.includes(name) || admitsNull(membersOf(properties[name])),
  );
  return Object.fromEntries(kept.map(([name, member]) => [name, asRead(member, membersOf(properties[name]))]));
}

function inList(text: string, list: unknown): string {
  if (!Array.isArray(list) || list.includes(text)) return text;
  const word = text.trim().toLowerCase();
  return list.find((listed) => typeof listed === 'string' && listed.toLowerCase() === word) ?? text;
}

function admitsNull(schema: Schema): boolean {
  if ('const' in schema) return schema.const === null;
  if (Array.isArray(schema.enum)) return schema.enum.includes(null);
  if (Array.isArray(schema.anyOf)) return schema.anyOf.some((branch) => admitsNull(membersOf(branch)));
  const types = typesOf(schema);
  return types.length === 0 || types.includes('null');
}
