const WHITE_SPACE = /^\p{White_Space}$/u;
const WHITE_SPACE_RUN = /\p{White_Space}+/gu;

/**
 * Strips Unicode white space from both ends. By hand, because a regular expression anchored at the end rescans
 * every inner run: 100,000 spaces before a letter would hold the worker for seconds.
 */
export function trimWhiteSpace(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && WHITE_SPACE.test(text.charAt(start))) start += 1;
  while (end > start && WHITE_SPACE.test(text.charAt(end - 1))) end -= 1;
  return text.slice(start, end);
}

/** Empty or white space only. */
export function isBlank(text: string): boolean {
  return trimWhiteSpace(text) === '';
}

/**
 * The form in which short texts are compared: NFC, white space trimmed and inner runs folded to one space, and,
 * unless case counts, full Unicode case folding. Accents count. Folding is idempotent.
 */
export function foldText(text: string, caseSensitive: boolean): string {
  const spaced = trimWhiteSpace(text.normalize('NFC')).replace(WHITE_SPACE_RUN, ' ');
  // Folding can take a letter and its accent apart (U+0390), so that NFC has to come again.
  return caseSensitive ? spaced : foldCase(spaced).normalize('NFC');
}

/**
 * Full Unicode case folding (CaseFolding.txt, statuses C and F) from the mappings JavaScript has. Lower, upper,
 * lower reaches the same classes: the first lower turns U+1E9E into ß, upper makes that SS, and both small sigmas
 * meet in Σ. One repair: the dotless ı folds to itself although its upper case is I. Only the classes of equal
 * texts are promised, not which letter stands for them (Cherokee folds to small letters here, to capitals in the
 * table, and a final sigma stays one).
 */
function foldCase(text: string): string {
  return text
    .split('ı')
    .map((part) => part.toLowerCase().toUpperCase().toLowerCase())
    .join('ı');
}
