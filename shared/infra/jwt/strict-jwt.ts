/** Far more than a token with the longest name takes; what is longer is not even decoded. */
const LONGEST = 8_192;

const SEGMENTS = /^([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)$/;

/**
 * The header segment of a text that is shaped like a token of ours, or null. Ours are exactly three canonical base64url segments
 * (no bits hidden behind the last letter), whose payload is an object in the spelling of JSON.stringify: each member once,
 * no blanks. One token then has one spelling, and no two parsers read two things in it.
 */
export function headerOf(text: string): string | null {
  if (text.length > LONGEST) return null;
  const [, header, payload, signature] = SEGMENTS.exec(text) ?? [];
  if (header === undefined || payload === undefined || signature === undefined) return null;
  if (![header, payload, signature].every(isCanonical) || !isPlainJson(payload)) return null;
  return header;
}

function isCanonical(segment: string): boolean {
  return Buffer.from(segment, 'base64url').toString('base64url') === segment;
}

function isPlainJson(segment: string): boolean {
  const text = Buffer.from(segment, 'base64url').toString();
  try {
    return text.startsWith('{') && JSON.stringify(JSON.parse(text)) === text;
  } catch {
    return false;
  }
}
