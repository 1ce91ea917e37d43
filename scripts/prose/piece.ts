/** One text that people read, with its place in a file. */
export interface Piece {
  readonly kind: 'comment' | 'test title' | 'log message' | 'message' | 'document';
  readonly file: string;
  /** Line of the first character, from 1. */
  readonly line: number;
  /** One paragraph on one line. A piece of code is the word `CODE`. */
  readonly text: string;
}

/** Returns a text on one line in which each span of code and each address is one word, so that only prose is left to check. */
export function prose(text: string): string {
  return text
    .replaceAll(/`[^`]*`/g, 'CODE')
    .replaceAll(/\{@link [^}]*\}/g, 'CODE')
    .replaceAll(/https?:\/\/\S+/g, 'CODE')
    .replaceAll(/\s+/g, ' ')
    .trim();
}
