/**
 * Format characters but the two joiners, which some scripts need. They show nothing. Those of bidirectional text reverse what follows, so
 * that `exe.jpg` reads like a picture, and those without a width make different names indistinguishable.
 */
const FORMATS = /(?![\u200C\u200D])\p{Cf}/gu;

/** Returns a text as it may leave for a mail program or a browser: without format characters. */
export function withoutFormats(text: string): string {
  return text.replace(FORMATS, '');
}

/** Returns a text as one line: each run of white space and control characters, line breaks included, becomes one space. */
export function oneLine(text: string, maxLength: number): string {
  const line = withoutFormats(text)
    .replace(/[\s\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ')
    .trim();
  return [...line].slice(0, maxLength).join('').trim();
}
