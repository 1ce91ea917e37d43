/**
 * Control and format characters and separators of lines. A format character is invisible and may
 * reverse the letters after it: a name or subject with one shows another name than it has. The two
 * joiners are no such character, because some scripts need them between letters.
 */
const HIDDEN = /[[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]--[\u200C\u200D]]/v;
const FORMAT = /[\p{Cf}--[\u200C\u200D]]/gv;
/** White space, and characters that show nothing by themselves, such as a joiner or a filler. */
const UNSEEN = '[\\s\\p{Default_Ignorable_Code_Point}]';
/** Begins at the first one of a run only. Begun again at each of 200,000 spaces, the search for the end would take minutes. */
const UNSEEN_EDGES = new RegExp(`^${UNSEEN}+|(?<!${UNSEEN})${UNSEEN}+$`, 'gu');

/** Returns true if a text has more than one line, or a character that hides or reverses others. */
export function hidesText(text: string): boolean {
  return HIDDEN.test(text);
}

/** Returns a text without format characters. */
export function withoutFormat(text: string): string {
  return text.replace(FORMAT, '');
}

/** Returns a text without what shows nothing at its ends. */
export function trimUnseen(text: string): string {
  return text.replace(UNSEEN_EDGES, '');
}

/**
 * Returns a text as one line: each run of white space and control characters, line breaks included, becomes one space. Format characters
 * are dropped.
 */
export function oneLine(text: string, maxLength: number): string {
  const line = withoutFormat(text)
    .replace(/[\s\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ')
    .trim();
  return trimUnseen([...line].slice(0, maxLength).join(''));
}
