import type { Piece } from './piece.ts';
import { DISCOURAGED } from './words.ts';

/** Upper bound of a sentence, in words. The style sheet aims at 25; longer ones are read twice. */
const MAX_WORDS = 30;
/** Upper bound of a line of a document, in characters. */
const MAX_LINE = 160;
const RIDDLES = /^(?:What|Who|Whether|Whoever|Of|By which)\b/;
const SENTENCES = new Intl.Segmenter('en', { granularity: 'sentence' });

/** Returns the faults of a text under the style sheet of CONTRIBUTING.md, one line each; empty if it has no fault. */
export function faultsOf({ kind, text }: Pick<Piece, 'kind' | 'text'>): string[] {
  const faults: string[] = [];
  const opener = kind === 'document' ? null : RIDDLES.exec(text);
  if (opener !== null) faults.push(`opens with "${opener[0]}": begin with a noun or a verb`);
  for (const { words, instead } of DISCOURAGED) {
    for (const [found] of text.matchAll(words)) faults.push(`"${found}": ${instead}`);
  }
  for (const sentence of sentencesOf(text)) {
    const count = sentence.split(' ').filter((word) => /[\p{L}\d]/u.test(word)).length;
    if (count > MAX_WORDS) faults.push(`${count} words in one sentence; at most ${MAX_WORDS} are allowed`);
  }
  return faults;
}

/** Returns the numbers of the lines of a document, from 1, that are too long to read. Fenced code and lines that hold an address are exempt. */
export function longLines(document: string): number[] {
  let isCode = false;
  return document.split('\n').flatMap((line, index) => {
    if (/^\s*(?:```|~~~)/.test(line)) isCode = !isCode;
    return !isCode && line.length > MAX_LINE && !line.includes('://') ? [index + 1] : [];
  });
}

function sentencesOf(text: string): string[] {
  return [...SENTENCES.segment(text)].map(({ segment }) => segment.trim());
}
