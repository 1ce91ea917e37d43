import { membersOf, NAME_BY_NAME, type ParsedJson, parseLarge } from './large-json.ts';
import { atOnce, type Pieces } from './pieces.ts';

/** Largest text (bytes) that is parsed at once: a body with a handful of fields. */
const SMALL_BYTES = 256 * 1_024;

/** How a JSON text is written. */
interface Writing {
  encoding: 'latin1' | 'utf8';
  /** True if a name may contain an escape: such names are read one by one, as texts. */
  escapedNames: boolean;
}

/**
 * Returns the value of a JSON text as `JSON.parse` should, in pieces if the text is large. @throws SyntaxError if it is not JSON, and
 * TooManyMembers
 *
 * V8 guesses the next name from texts that it has parsed before. It compares the guess with the letters of the text and does not read their
 * escapes (nodejs/node#63785, in Node 24 and 26). After `{"a":1,"\\u01":1}` of one caller, `{"a":1,"\u0111i\u1ec3m":1}` of the next one
 * has the name `\u01`.
 */
export function* parseJson(text: Buffer, { encoding, escapedNames }: Writing): Pieces<ParsedJson> {
  if (escapedNames) return yield* parseLarge(text, encoding, NAME_BY_NAME);
  if (text.length > SMALL_BYTES) return yield* parseLarge(text, encoding);
  const value: unknown = JSON.parse(text.toString(encoding));
  return { value, members: membersOf(value) };
}

/** Returns the value of a JSON text of another service, at once. @throws SyntaxError if it is not JSON, and TooManyMembers */
export function parseJsonText(text: string): unknown {
  const escapedNames = text.includes('\\') && hasEscapedName(text);
  return escapedNames
    ? atOnce(parseJson(Buffer.from(text), { encoding: 'utf8', escapedNames })).value
    : JSON.parse(text);
}

function hasEscapedName(text: string): boolean {
  for (const [string, colon] of text.matchAll(/"(?:[^"\\]|\\[\s\S])*"(\s*:)?/g)) {
    if (colon !== undefined && string.includes('\\')) return true;
  }
  return false;
}
