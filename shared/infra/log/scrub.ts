/** Short secrets turn up in ordinary words; cutting those out would only maim the log. */
const SHORTEST = 8;
const PATTERNS: readonly [RegExp, string][] = [
  [/\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{8,}/gi, '$1 [redacted]'],
  [/:\/\/[^\s/@"\\]+@/g, '://[redacted]@'],
  [/\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*/g, '[redacted]'],
];

/**
 * Returns a function that cuts secrets out of a line of text: the configured ones by value, others by the shape in
 * which they come (bearer tokens, JWTs, credentials in a URL). The last net behind redaction by field name: drivers
 * quote URLs in their messages.
 */
export function scrubber(secrets: readonly (string | undefined)[]): (line: string) => string {
  const values = new Set<string>();
  for (const secret of secrets) {
    if (secret === undefined || secret.length < SHORTEST) continue;
    values.add(secret);
    // As it looks inside a JSON string.
    values.add(JSON.stringify(secret).slice(1, -1));
  }
  return (line) => {
    let clean = line;
    for (const value of values) if (clean.includes(value)) clean = clean.replaceAll(value, '[redacted]');
    for (const [pattern, replacement] of PATTERNS) clean = clean.replace(pattern, replacement);
    return clean;
  };
}
