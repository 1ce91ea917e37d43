import { isUtf8 } from 'node:buffer';
import { MAX_FAULTS } from '#infra/schema/validator.ts';
import type { FaultDetail, Rejection } from '#shared/kernel/errors.ts';
import { escapePointer } from '#shared/kernel/json.ts';
import { MAX_MEMBERS, type ParsedJson, TooManyMembers } from '#shared/kernel/large-json.ts';
import { parseJson } from '#shared/kernel/parse-json.ts';
import type { Pieces } from '#shared/kernel/pieces.ts';
import { foreignTextFault, hasMarkRun, MARK_RUN_FAULT } from '#shared/kernel/text.ts';
import { numberFault, pointersTo } from './json-numbers.ts';

const MAX_DEPTH = 64;
const BYTE_ORDER_MARK = Buffer.from('\ufeff');
/** Values that are visited in one piece. */
const PIECE_VALUES = 4_096;

/** A parsed body, with the faults of its values that no schema can express. */
interface ParsedBody {
  value: unknown;
  faults: FaultDetail[];
}

/**
 * Parses a body. Returns INVALID_JSON for bytes that are not UTF-8 or not JSON, nesting over 64, too many members, a member that an object has
 * twice, and forbidden keys. `__proto__`, and `constructor` holding `prototype`, would reach a prototype if code merged the body into an object.
 * Values that JSON allows but MongoDB or a reply cannot hold (numbers that no double holds, lone surrogates, NUL in a key) are returned as
 * faults. So is a run of combining marks, except in the fields of `anyMarks`, JSON pointers.
 * One leading byte order mark is ignored (RFC 8259, section 8.1). The parser's own message quotes the body and is dropped.
 */
export function* parseBody(sent: Buffer, anyMarks: readonly string[] = []): Pieces<ParsedBody | Rejection> {
  const isMarked = sent.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK);
  const bytes = isMarked ? sent.subarray(BYTE_ORDER_MARK.length) : sent;
  const scan = yield* scanJson(bytes, MAX_DEPTH);
  if (scan.depth > MAX_DEPTH) {
    return { rejected: 'INVALID_JSON', message: `The body is nested deeper than ${MAX_DEPTH} levels` };
  }
  if (!scan.ascii && !isUtf8(bytes)) return { rejected: 'INVALID_JSON', message: 'The body is not UTF-8' };
  let parsed: ParsedJson;
  try {
    parsed = yield* parseJson(bytes, { encoding: scan.ascii ? 'latin1' : 'utf8', escapedNames: scan.escapedNames });
  } catch (error) {
    if (!(error instanceof TooManyMembers)) return { rejected: 'INVALID_JSON' };
    return { rejected: 'INVALID_JSON', message: `An object of the body has more than ${MAX_MEMBERS} members` };
  }
  // Parsers take the first or the last of two members: a gateway may have checked the other one.
  if (parsed.members < scan.members) {
    return { rejected: 'INVALID_JSON', message: 'An object of the body has a member twice' };
  }
  const { value } = parsed;
  const faults = yield* numberFaults(bytes, scan.unfit);
  if (scan.suspicious && !(yield* walk(value, '', { faults, anyMarks, visited: 0 })))
    return { rejected: 'INVALID_JSON', message: 'The body contains a forbidden key' };
  return { value, faults };
}

/** Returns the faults of numbers with their paths, which a body without such numbers need not be read again for. */
function* numberFaults(bytes: Buffer, unfit: readonly UnfitNumber[]): Pieces<FaultDetail[]> {
  const positions = unfit.map(({ at }) => at);
  const pointers = yield* pointersTo(bytes, positions);
  return unfit.map(({ message }, index) => ({ path: pointers[index] ?? '', message }));
}

/** The faults of a body, the fields that may have runs of marks, and the number of values that were visited. */
interface Walk {
  faults: FaultDetail[];
  anyMarks: readonly string[];
  visited: number;
}

/** Collects faults of a value and below it. Returns false on a forbidden key. Recursion ends: the scan refused depth over `MAX_DEPTH`. */
function* walk(value: unknown, path: string, about: Walk): Pieces<boolean> {
  const message = textFault(value);
  if (message !== null && !(message === MARK_RUN_FAULT && about.anyMarks.includes(path))) note(about, path, message);
  if (typeof value !== 'object' || value === null) return true;
  const isArray = Array.isArray(value);
  for (const [key, child] of isArray ? value.entries() : Object.entries(value)) {
    about.visited += 1;
    if (about.visited % PIECE_VALUES === 0) yield;
    const name = String(key);
    if (!isArray && !isPermitted(name, child, path, about)) return false;
    // A path, and a walk of its own, would cost most values more than all the rest.
    if (!isSoundScalar(child) && !(yield* walk(child, `${path}/${escapePointer(name)}`, about))) return false;
  }
  return true;
}

/** Returns false for a forbidden key. Collects faults of any other. */
function isPermitted(key: string, child: unknown, path: string, about: Walk): boolean {
  if (key === '__proto__' || (key === 'constructor' && holdsPrototype(child))) return false;
  if (key.includes('\0')) note(about, `${path}/${escapePointer(key)}`, 'must have a name without NUL');
  if (!key.isWellFormed()) note(about, `${path}/${escapePointer(key)}`, 'must have a well-formed Unicode name');
  if (hasMarkRun(key)) {
    note(about, `${path}/${escapePointer(key)}`, 'must have a name without more than 30 combining marks in a row');
  }
  return true;
}

/** Returns what is wrong with a text; null for any other value. */
function textFault(value: unknown): string | null {
  return typeof value === 'string' ? foreignTextFault(value) : null;
}

function isSoundScalar(value: unknown): boolean {
  return (typeof value !== 'object' || value === null) && textFault(value) === null;
}

function holdsPrototype(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, 'prototype');
}

function note({ faults }: Walk, path: string, message: string): void {
  if (faults.length < MAX_FAULTS) faults.push({ path, message });
}

/** A number that a double cannot hold: the position of its first byte, and its fault. */
interface UnfitNumber {
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
