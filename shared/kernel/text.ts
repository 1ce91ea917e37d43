/** Marks in a row that no writing system exceeds: the limit of the Stream-Safe Text Format (UAX #15). */
const MAX_MARKS = 30;

/** Reason why a text with a run of marks is refused. */
export const MARK_RUN_FAULT = `must not contain more than ${MAX_MARKS} combining marks in a row`;

/** Begins at the first mark of a run only. Begun again at each mark, the search would read a run of 30 marks 30 times. */
const MARK_RUN = new RegExp(`(?<!\\p{M})\\p{M}{${MAX_MARKS + 1}}`, 'u');

/** For each UTF-16 unit 1 if it is a mark, or half of a pair that may be one. Built by the first text, within milliseconds. */
let unitsOfMarks: Uint8Array | undefined;

function findUnitsOfMarks(): Uint8Array {
  return Uint8Array.from({ length: 0x1_0000 }, (_, unit) => Number(/[\p{M}\p{Cs}]/u.test(String.fromCharCode(unit))));
}

/**
 * Returns true if a text has more than 30 combining marks in a row. Normalization sorts the marks of a run by insertion: 100,000 of them
 * hold the event loop for seconds, and 30 cost nothing. The table spares the search, which takes 30 ns for each character.
 */
export function hasMarkRun(text: string): boolean {
  unitsOfMarks ??= findUnitsOfMarks();
  let marks = 0;
  for (let at = 0; at < text.length; at += 1) {
    marks = unitsOfMarks[text.charCodeAt(at)] === 1 ? marks + 1 : 0;
    if (marks > MAX_MARKS) return MARK_RUN.test(text);
  }
  return false;
}

/** Returns the reason why a text of others is refused, or null. MongoDB would store half of a pair of units as another character. */
export function foreignTextFault(text: string): string | null {
  if (!text.isWellFormed()) return 'must be well-formed Unicode';
  return hasMarkRun(text) ? MARK_RUN_FAULT : null;
}

/** Returns the beginning of a text, at most so many UTF-16 units long, without half of a pair at its end: a stricter reader would refuse it. */
export function beginningOf(text: string, maxUnits: number): string {
  const units = text.slice(0, maxUnits);
  return text.length > maxUnits && /[\ud800-\udbff]$/.test(units) ? units.slice(0, -1) : units;
}

/** Returns the NFC form of a text. A text with a run of marks is returned unchanged, so that the cost is linear in the length. */
export function composed(text: string): string {
  return hasMarkRun(text) ? text : text.normalize('NFC');
}

/** Returns the NFKC form of a text, in which full-width letters are plain ones, and a text with a run of marks unchanged. */
export function compatible(text: string): string {
  return hasMarkRun(text) ? text : text.normalize('NFKC');
}

/** Returns the NFD form of a text, and a text with a run of marks unchanged. */
export function decomposed(text: string): string {
  return hasMarkRun(text) ? text : text.normalize('NFD');
}

const SHOWN = /[^\p{White_Space}\p{Default_Ignorable_Code_Point}]/u;

/** Returns true if a text is empty, or consists of white space and of characters that show nothing. */
export function isBlank(text: string): boolean {
  return !SHOWN.test(text);
}

const UNSEEN = /\p{Default_Ignorable_Code_Point}+/gu;

/**
 * Returns a text without the characters that show nothing by themselves, such as a zero-width space, a joiner or a byte order mark. They
 * come along with text that is copied from a page or a document.
 */
export function withoutUnseen(text: string): string {
  return text.replace(UNSEEN, '');
}

/**
 * Control and format characters and separators of lines. A format character is invisible and may
 * reverse the letters after it: a name or subject with one shows another name than it has. The two
 * joiners are no such character, because some scripts need them between letters.
 */
const HIDDEN = /[[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]--[\u200C\u200D]]/v;
const FORMAT = /[\p{Cf}--[\u200C\u200D]]/gv;
/** White space, and characters that show nothing by themselves, such as a joiner or a filler. */
const UNSEEN_CLASS = '[\\s\\p{Default_Ignorable_Code_Point}]';
/** Begins at the first one of a run only. Begun again at each of 200,000 spaces, the search for the end would take minutes. */
const UNSEEN_EDGES = new RegExp(`^${UNSEEN_CLASS}+|(?<!${UNSEEN_CLASS})${UNSEEN_CLASS}+$`, 'gu');

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

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Returns a text as HTML shows it, between tags and in a quoted attribute. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? '');
}
