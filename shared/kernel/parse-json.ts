import { countMembers, type ParsedJson, parseLarge, type Writing } from './large-json.ts';
import { atOnce, type Pieces } from './pieces.ts';

/** Largest text (bytes) that is parsed at once: a body with a handful of fields. */
const SMALL_BYTES = 256 * 1_024;

/**
 * Returns the value of a JSON text as `JSON.parse` should, in pieces if the text is large. @throws SyntaxError if it is not JSON, and
 * TooManyMembers
 *
 * V8 guesses the next name from texts that it has parsed before. It compares the guess with the letters of the text and does not read their
 * escapes (nodejs/node#63785, in Node 24 and 26). After `{"a":1,"\\u01":1}` of one caller, `{"a":1,"\u0111i\u1ec3m":1}` of the next one
 * has the name `\u01`.
 */
export function* parseJson(text: Buffer, writing: Writing): Pieces<ParsedJson> {
  if (writing.escapedNames || text.length > SMALL_BYTES) return yield* parseLarge(text, writing);
  const value: unknown = JSON.parse(text.toString(writing.encoding));
  return { value, members: countMembers(value) };
}

/** Returns the value of a JSON text of another service, at once. @throws SyntaxError if it is not JSON, and TooManyMembers */
export function parseJsonText(text: string): unknown {
  const escapedNames = text.includes('\\') && hasEscapedName(text);
  return escapedNames
    ? atOnce(parseJson(Buffer.from(text), { encoding: 'utf8', escapedNames })).value
    : JSON.parse(text);
}

/** Returns true if a name has an escape. It reads each character once, because the text may be no JSON. */
function hasEscapedName(text: string): boolean {
  for (let at = text.indexOf('"'); at !== -1; at = text.indexOf('"', at)) {
    const end = closingQuote(text, at);
    if (end === -1) return false;
    const isEscaped = text.slice(at, end).includes('\\');
    at = end + 1;
    while (' \n\r\t'.includes(text[at] ?? '.')) at += 1;
    if (isEscaped && text[at] === ':') return true;
  }
  return false;
}

/** Returns the number of members that a JSON text has in all of its objects. */
export function membersIn(text: string): number {
  let members = 0;
  for (let at = 0; at !== -1 && at < text.length; at += 1) {
    if (text[at] === ':') members += 1;
    else if (text[at] === '"') at = closingQuote(text, at);
    if (at === -1) return members;
  }
  return members;
}

/** Returns the position of the quote that ends the string which begins at `from`, or -1. */
export function closingQuote(text: string, from: number): number {
  for (let at = from + 1; at < text.length; at += 1) {
    if (text[at] === '"') return at;
    if (text[at] === '\\') at += 1;
  }
  return -1;
}
