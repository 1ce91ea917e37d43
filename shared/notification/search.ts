/**
 * A regular expression, for a PCRE engine, that finds `q` literally: as it was typed, and with its accents in one code point or in
 * several. Vietnamese is written both ways, and a stored text keeps the way that its sender chose.
 */
export function literalPattern(q: string): string {
  const forms = new Set([q, q.normalize('NFC'), q.normalize('NFD')]);
  return [...forms].map(escaped).join('|');
}

/** A pattern is sent as a text that NUL ends, so that one is spelt out; `\u` escapes are not known to PCRE. */
function escaped(text: string): string {
  return text.replace(/[\\^$.|?*+()[\]{}]/g, '\\$&').replaceAll('\0', '\\x00');
}
