import { MAX_FAULTS } from '#infra/schema/validator.ts';
import type { Pieces } from '#shared/kernel/pieces.ts';
import { numberFault } from './json-numbers.ts';

/** A number that a double cannot hold: the position of its first byte, and its fault. */
export interface UnfitNumber {
  at: number;
  message: string;
}

/** Result of one pass over the bytes of a JSON text before it is parsed. */
interface Scan {
  /** Deepest nesting of arrays and objects, counted no further than `maxDepth + 1`. */
  depth: number;
  /** Members of all objects. */
  members: number;
  /** The first MAX_FAULTS numbers that a double cannot hold. */
  unfit: UnfitNumber[];
  /** True if the name of a member contains an escape. */
  escapedNames: boolean;
  /** True if a string could be a forbidden key, malformed Unicode or a run of marks. */
  suspicious: boolean;
  ascii: boolean;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const SMALL_U = 0x75;
/** First byte of U+0300, before which no character is a combining mark. */
const FIRST_MARK = 0xcc;
/** Characters that may be marks and follow each other without being searched for a run. */
const MAX_MARKS = 30;
/** Bytes that are scanned in one piece. */
const PIECE_BYTES = 256 * 1_024;
/** Bytes up to which a double holds any number without an exponent. */
const SHORT_NUMBER = 15;

/**
 * Counts nesting before `JSON.parse` builds it: 8 MiB of `[` would become millions of arrays first. `suspicious` decides
 * whether the parsed tree must be walked; nearly all bodies need no walk. Depth, members and numbers are exact for valid JSON; the parser
 * refuses invalid JSON.
 */
export function* scanJson(bytes: Buffer, maxDepth: number): Pieces<Scan> {
  const unfit: UnfitNumber[] = [];
  let pauseAt = PIECE_BYTES;
  let depth = 0;
  let deepest = 0;
  let members = 0;
  let every = 0;
  let suspicious = false;
  let escapedNames = false;
  let isEscaped = false;
  const end = bytes.length;
  for (let i = 0; i < end; i += 1) {
    if (i >= pauseAt) {
      pauseAt = i + PIECE_BYTES;
      yield;
    }
    const byte = bytes[i] ?? 0;
    every |= byte;
    if ((byte >= 0x30 && byte <= 0x39) || byte === 0x2d) {
      const from = i;
      let isShort = true;
      for (i += 1; i < end; i += 1) {
        const digit = bytes[i] ?? 0;
        if ((digit | 0x20) === 0x65) isShort = false;
        else if (digit < 0x2b || digit > 0x39 || digit === 0x2c) break;
      }
      if ((!isShort || i - from > SHORT_NUMBER) && unfit.length < MAX_FAULTS) {
        const message = numberFault(bytes, from, i);
        if (message !== undefined) unfit.push({ at: from, message });
      }
      i -= 1;
    } else if (byte === QUOTE) {
      i += 1;
      if (mayBeForbidden(bytes, i)) suspicious = true;
      let marks = 0;
      isEscaped = false;
      for (; i < end && bytes[i] !== QUOTE; i += 1) {
        const letter = bytes[i] ?? 0;
        every |= letter;
        if (letter >= FIRST_MARK) {
          marks += 1;
          if (marks > MAX_MARKS) suspicious = true;
        } else if (letter < 0x80) {
          marks = 0;
          if (letter === BACKSLASH) {
            i += 1;
            isEscaped = true;
            if (bytes[i] === SMALL_U) suspicious = true;
          }
        }
      }
    } else if (byte === 0x3a) {
      members += 1;
      if (isEscaped) escapedNames = true;
    } else if (byte === 0x5b || byte === 0x7b) {
      depth += 1;
      if (depth > deepest) deepest = depth;
      if (depth > maxDepth) break;
    } else if (byte === 0x5d || byte === 0x7d) {
      depth -= 1;
    }
  }
  return { depth: deepest, members, unfit, escapedNames, suspicious, ascii: every < 0x80 };
}

/** Returns true at the first letters of `__proto__` or `constructor`. Any other spelling needs an escape. */
function mayBeForbidden(bytes: Uint8Array, at: number): boolean {
  if (bytes[at] === 0x5f) return bytes[at + 1] === 0x5f;
  return bytes[at] === 0x63 && bytes[at + 3] === 0x73 && bytes[at + 4] === 0x74;
}
