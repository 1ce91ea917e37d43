import { composed, decomposed, isBlank, withoutUnseen } from '#shared/kernel/text.ts';

/** Texts as students and authors type them: which essays are blank, and the form in which two of them are compared. */

const WHITE_SPACE = /^\p{White_Space}$/u;
const WHITE_SPACE_RUN = /\p{White_Space}+/gu;

/** Begins at each `<` and ends before the next one, so that the cost is linear in the length. */
const TAG = /<[a-z/!][^<>]*>/gi;
const NAME = /^<\/?([a-z][^\s/>]*)/i;
const BLANK_ENTITY = /&(?:nbsp|#160|#xa0);/gi;

/** Elements that a reader sees although they contain no text. */
const SHOWING_ELEMENTS: ReadonlySet<string> = new Set([
  'audio',
  'canvas',
  'embed',
  'hr',
  'iframe',
  'img',
  'input',
  'math',
  'object',
  'svg',
  'video',
]);

/** Returns true if an essay shows nothing: it is blank without its tags. An editor sends `<p><br></p>` for an empty page. */
export function isBlankEssay(html: string): boolean {
  let shows = false;
  const text = html.replace(TAG, (tag) => {
    shows ||= isShown(NAME.exec(tag)?.[1]?.toLowerCase() ?? '');
    return '';
  });
  return !shows && isBlank(text.replace(BLANK_ENTITY, ' '));
}

/** Returns true if an element of this name may show something. A name with a hyphen is one of the page itself, such as `math-field`. */
function isShown(name: string): boolean {
  return SHOWING_ELEMENTS.has(name) || name.includes('-');
}

/**
 * Strips Unicode white space from both ends. It loops by hand, because a regular expression anchored at the end rescans every
 * inner run: 100,000 spaces before a letter would block the worker for seconds.
 */
export function trimWhiteSpace(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && WHITE_SPACE.test(text.charAt(start))) start += 1;
  while (end > start && WHITE_SPACE.test(text.charAt(end - 1))) end -= 1;
  return text.slice(start, end);
}

/**
 * Returns the form in which short texts are compared. Characters that show nothing are dropped, white space is reduced, typographic
 * marks are ASCII, and letters have one Unicode form and one place of the tone. If `caseSensitive` is false, full Unicode case folding is
 * applied. Accents are kept. Folding is idempotent.
 */
export function foldText(text: string, caseSensitive: boolean): string {
  return foldSqueezed(squeezed(text), caseSensitive);
}

/**
 * Returns a text without characters that show nothing and without white space at its ends, with inner runs of it reduced to one space.
 * NFC may follow, because it makes and removes none of them.
 */
export function squeezed(text: string): string {
  return trimWhiteSpace(withoutUnseen(text).replace(WHITE_SPACE_RUN, ' '));
}

/**
 * Upper bound of the length of a squeezed text, for each UTF-16 unit of its folded form. Folding never has fewer characters than the text
 * when both are decomposed; a character decomposes into four at most; and a character has two units at most.
 */
export const MAX_SHRINKAGE = 8;

/** Folds a squeezed text. */
export function foldSqueezed(text: string, caseSensitive: boolean): string {
  // A final sigma depends on the marks around it, so that they are ASCII before case is folded.
  const letters = composed(inAscii(text));
  // Case folding can separate a letter and its accent (U+0390), so the text is composed again.
  return withTonesInPlace(caseSensitive ? letters : composed(foldCase(letters)));
}

/** Returns a text with the quotes, dashes and dots that phones and word processors type by themselves as ASCII. */
function inAscii(text: string): string {
  return text
    .replace(/[\u2018-\u201B\u2032]/g, "'")
    .replace(/[\u201C-\u201F\u2033]/g, '"')
    .replace(/[\u2010-\u2015\u2212\uFE63\uFF0D]/g, '-')
    .replaceAll('\u2026', '...');
}

/** A letter whose tone was typed before its circumflex or breve. Unicode keeps that order, and shows the same letter. */
const EARLY_TONE = /[àáãảèéẽẻòóõỏÀÁÃẢÈÉẼẺÒÓÕỎ][\u0302\u0306]/g;
/** The tone on the first vowel of an `oa`, `oe` or `uy` that ends a syllable. Before a further letter it has one place only. */
const ON_FIRST_VOWEL = /(?:[òóõỏọÒÓÕỎỌ][aeAE]|[ùúũủụÙÚŨỦỤ][yY])(?![\p{L}\p{M}])/gu;

/**
 * Returns a composed text with each tone of Vietnamese in one place. Both spellings of a syllable such as `hòa` and `hoà` are taught; the
 * tone moves to the second vowel.
 */
function withTonesInPlace(text: string): string {
  return text.replace(EARLY_TONE, toneLast).replace(ON_FIRST_VOWEL, toneLast);
}

/** Results of `toneLast`: the two patterns match some hundred pairs, and a long key may have each of them a thousand times. */
const TONES_LAST = new Map<string, string>();

/** Returns two characters, the first of which has a tone, with the tone after the second one. */
function toneLast(pair: string): string {
  const known = TONES_LAST.get(pair);
  if (known !== undefined) return known;
  const [letter = '', tone = '', second = ''] = decomposed(pair);
  const moved = composed(letter + second + tone);
  TONES_LAST.set(pair, moved);
  return moved;
}

/**
 * Folds case like full Unicode case folding (CaseFolding.txt, statuses C and F), using JavaScript's mappings. The sequence
 * lower, upper, lower yields the same classes of equal texts. The first lower turns U+1E9E into ß, and upper turns ß into SS
 * and both small sigmas into Σ. The dotless ı is excluded, because it folds to itself although its upper case is I.
 * The representative of a class may differ from the table: Cherokee folds to small letters here and to capitals in the table,
 * and a final sigma stays final.
 */
function foldCase(text: string): string {
  return text
    .split('ı')
    .map((part) => part.toLowerCase().toUpperCase().toLowerCase())
    .join('ı');
}
