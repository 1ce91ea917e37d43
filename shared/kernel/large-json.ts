import type { Pieces } from './pieces.ts';

/**
 * Bytes of JSON text that are parsed in one piece. Millions of small values take half a second for each 8 MiB. In an object of a thousand
 * members V8 finds a name twice as fast as in a large one.
 */
const PIECE_BYTES = 16 * 1_024;

/**
 * Maximum number of members in one object: more different names than a free map of 1 MiB, the largest that a schema admits, has room for.
 * One step over the names of a larger object would hold up other requests for longer than one request may.
 */
export const MAX_MEMBERS = 133_000;

/** Thrown for an object of more than MAX_MEMBERS members. */
export class TooManyMembers extends Error {}

/** How a JSON text is written. */
export interface Writing {
  encoding: 'latin1' | 'utf8';
  /** True if a name may contain an escape: then every name is read alone, as a text. */
  escapedNames: boolean;
}

export interface ParsedJson {
  value: unknown;
  /** Members of all objects; fewer than the text has if an object has a name twice, because `JSON.parse` takes the last of such members. */
  members: number;
}

/** Counts the members of all objects. Recursion ends, because `JSON.parse` does. */
export function countMembers(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  let members = 0;
  if (Array.isArray(value)) {
    for (const item of value) if (typeof item === 'object') members += countMembers(item);
    return members;
  }
  const object = value as Readonly<Record<string, unknown>>;
  // Object.values would take three times as long for a large object. What JSON.parse returns has no members but its own.
  for (const name in object) members += 1 + countMembers(object[name]);
  return members;
}

/** An array or object whose end is not found yet. */
class Open {
  isArray = false;
  /** Position after its bracket. */
  from = 0;
  /** Position after the last member that is in `value`. */
  parsedTo = 0;
  /** Position of its last comma and of the colon after that; -1 without one. */
  comma = -1;
  colon = -1;
  commas = 0;
  /** Its members so far; undefined as long as it is small enough to be parsed with what is around it. */
  value: unknown[] | Record<string, unknown> | undefined = undefined;
  /** True after a member that was parsed alone, up to the comma: only white space may follow it. */
  isAfterPart = false;

  begin(isArray: boolean, from: number): void {
    this.isArray = isArray;
    this.from = from;
    this.parsedTo = from;
    this.comma = -1;
    this.colon = -1;
    this.commas = 0;
    this.value = undefined;
    this.isAfterPart = false;
  }
}

const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a];
const [OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

/**
 * Returns the value of a JSON text as `JSON.parse` does, in pieces: it parses some members of a large array or object at a time,
 * and puts them together. @throws SyntaxError if the text is not JSON, and TooManyMembers
 */
export function* parseLarge(bytes: Buffer, writing: Writing, pieceBytes = PIECE_BYTES): Pieces<ParsedJson> {
  const text = new LargeText(bytes, writing);
  const open = new OpenLevels();
  let root: { value: unknown; from: number; to: number } | undefined;
  let pauseAt = pieceBytes;
  for (let i = 0; i < bytes.length; i += 1) {
    const byte = bytes[i];
    if (byte === QUOTE) {
      i = endOfString(bytes, i);
    } else if (byte === OPEN_ARRAY || byte === OPEN_OBJECT) {
      open.push(byte === OPEN_ARRAY, i + 1);
    } else if (byte === COMMA) {
      if (text.passComma(open.last(), i, pieceBytes)) yield;
    } else if (byte === COLON) {
      open.last().colon = i;
    } else if (byte === CLOSE_ARRAY || byte === CLOSE_OBJECT) {
      const at = open.last();
      if (at.isArray !== (byte === CLOSE_ARRAY)) throw new SyntaxError('a bracket without its other one');
      open.pop();
      if (open.isEmpty()) {
        if (root !== undefined) throw new SyntaxError('two values');
        root = { value: text.valueOf(at, i), from: at.from - 1, to: i + 1 };
      } else if (at.value !== undefined || i - at.from >= pieceBytes || text.isSingly(at)) {
        const around = open.last();
        text.addPart(around, at.from - 1, text.valueOf(at, i));
        around.parsedTo = i + 1;
        if (i - at.from >= pieceBytes) yield;
      }
    }
    if (i >= pauseAt) {
      pauseAt = i + pieceBytes;
      yield;
    }
  }
  if (!open.isEmpty()) throw new SyntaxError('a bracket without its other one');
  if (root === undefined) return { value: text.parsed(0, bytes.length), members: 0 };
  text.requireSpace(0, root.from);
  text.requireSpace(root.to, bytes.length);
  return { value: root.value, members: text.members };
}

/** The open arrays and objects, outermost first. A level is used again: a text may have millions of empty lists. */
class OpenLevels {
  readonly #levels: Open[] = [];
  #depth = 0;

  isEmpty(): boolean {
    return this.#depth === 0;
  }

  push(isArray: boolean, from: number): void {
    const level = this.#levels[this.#depth] ?? new Open();
    this.#levels[this.#depth] = level;
    level.begin(isArray, from);
    this.#depth += 1;
  }

  pop(): void {
    this.#depth -= 1;
  }

  /** Returns the innermost one. @throws SyntaxError without one */
  last(): Open {
    const last = this.#levels[this.#depth - 1];
    if (last === undefined) throw new SyntaxError('a mark outside of arrays and objects');
    return last;
  }
}

/** A text of which parts are parsed. Each method throws SyntaxError if its part is not JSON. */
class LargeText {
  /** Members of what was parsed so far. */
  members = 0;
  readonly #bytes: Buffer;
  readonly #writing: Writing;

  constructor(bytes: Buffer, writing: Writing) {
    this.#bytes = bytes;
    this.#writing = writing;
  }

  /** Returns true for an object whose members are parsed one by one, because a name among them may have an escape. */
  isSingly(at: Open): boolean {
    return this.#writing.escapedNames && !at.isArray && at.colon >= at.from;
  }

  parsed(from: number, to: number): unknown {
    const value: unknown = JSON.parse(this.#bytes.toString(this.#writing.encoding, from, to));
    this.members += countMembers(value);
    return value;
  }

  /** Adds the members before a comma if there is enough to be parsed. Returns true if it has parsed a long one. @throws TooManyMembers */
  passComma(at: Open, position: number, pieceBytes: number): boolean {
    at.commas += 1;
    if (at.commas >= MAX_MEMBERS && !at.isArray) throw new TooManyMembers();
    at.comma = position;
    const isLong = position - at.parsedTo >= pieceBytes;
    const isFull = !at.isAfterPart && (isLong || this.isSingly(at));
    if (at.isAfterPart) this.requireSpace(at.parsedTo, position);
    else if (isFull) this.#addMembers(at, position);
    if (at.isAfterPart || isFull) at.parsedTo = position + 1;
    at.isAfterPart = false;
    return isFull && isLong;
  }

  /** Adds a large member to the array or object that it is in, after the members before it. */
  addPart(at: Open, from: number, value: unknown): void {
    if (at.isAfterPart) throw new SyntaxError('two members without a comma');
    const begins = Math.max(at.parsedTo, at.comma + 1);
    if (begins > at.parsedTo) this.#addMembers(at, begins - 1);
    if (at.isArray) {
      this.requireSpace(begins, from);
      arrayOf(at).push(value);
    } else {
      this.requireSpace(at.colon + 1, from);
      this.#addNamed(at, begins, value);
    }
    at.isAfterPart = true;
  }

  /** Adds a member whose name begins at a position and ends before its colon. */
  #addNamed(at: Open, from: number, value: unknown): void {
    if (at.colon < from) throw new SyntaxError('a member without a name');
    const name = this.parsed(from, at.colon);
    if (typeof name !== 'string') throw new SyntaxError('a name that is no string');
    if (setMember(objectOf(at), name, value)) this.members += 1;
  }

  /** Returns an array or object whose closing bracket is at `end`. */
  valueOf(at: Open, end: number): unknown {
    if (at.value === undefined && !this.isSingly(at)) return this.parsed(at.from - 1, end + 1);
    if (at.isAfterPart) this.requireSpace(at.parsedTo, end);
    else this.#addMembers(at, end);
    return at.value;
  }

  requireSpace(from: number, to: number): void {
    for (let i = from; i < to; i += 1) {
      const byte = this.#bytes[i];
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) throw new SyntaxError('text after a value');
    }
  }

  /** Adds the members up to a position, which is that of a comma or of the bracket. There must be one. */
  #addMembers(at: Open, to: number): void {
    if (this.isSingly(at)) {
      this.#addNamed(at, at.parsedTo, this.parsed(at.colon + 1, to));
      return;
    }
    const text = this.#bytes.toString(this.#writing.encoding, at.parsedTo, to);
    const added: unknown = JSON.parse(at.isArray ? `[${text}]` : `{${text}}`);
    this.members += countMembers(added);
    const count = at.isArray
      ? addItems(arrayOf(at), added as unknown[])
      : this.#addEntries(objectOf(at), added as object);
    if (count === 0) throw new SyntaxError('a comma without a member');
  }

  #addEntries(object: Record<string, unknown>, added: object): number {
    const entries = Object.entries(added);
    for (const [name, value] of entries) if (!setMember(object, name, value)) this.members -= 1;
    return entries.length;
  }
}

function arrayOf(at: Open): unknown[] {
  at.value ??= [];
  return at.value as unknown[];
}

function objectOf(at: Open): Record<string, unknown> {
  at.value ??= {};
  return at.value as Record<string, unknown>;
}

function addItems(array: unknown[], items: readonly unknown[]): number {
  for (const item of items) array.push(item);
  return items.length;
}

/** Sets a member as `JSON.parse` does: `__proto__` is a name like any other. Returns false if the object had one of this name. */
function setMember(object: Record<string, unknown>, name: string, value: unknown): boolean {
  const isNew = !Object.hasOwn(object, name);
  if (name !== '__proto__') object[name] = value;
  else Object.defineProperty(object, name, { value, enumerable: true, writable: true, configurable: true });
  return isNew;
}

/** Returns the position of the quote that ends the string which begins at `from`, or the end of the text. */
export function endOfString(bytes: Buffer, from: number): number {
  let i = from + 1;
  for (; i < bytes.length && bytes[i] !== QUOTE; i += 1) if (bytes[i] === BACKSLASH) i += 1;
  return i;
}
