import { isUtf8 } from 'node:buffer';
import { MAX_FAULTS } from '#infra/schema/validator.ts';
import type { FaultDetail, Rejection } from '#shared/kernel/errors.ts';
import { escapePointer } from '#shared/kernel/json.ts';
import { MAX_MEMBERS, type ParsedJson, TooManyMembers } from '#shared/kernel/large-json.ts';
import { parseJson } from '#shared/kernel/parse-json.ts';
import type { Pieces } from '#shared/kernel/pieces.ts';
import { foreignTextFault, hasMarkRun, MARK_RUN_FAULT } from '#shared/kernel/text.ts';
import { pointersTo } from './json-numbers.ts';
import { scanJson, type UnfitNumber } from './json-scan.ts';

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
