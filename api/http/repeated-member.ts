import { randomUUID } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { isJsonObject } from '#shared/kernel/json.ts';
import { endOfString } from '#shared/kernel/large-json.ts';

/** Bytes of JSON that a route keeps. Their values take some four times as much. */
const KEPT_BYTES = 4 * 1_024 * 1_024;
/** Shortest and longest member that is kept: a shorter one is parsed as fast as it is found. */
const LEAST_BYTES = 1_024;
const MOST_BYTES = 1_024 * 1_024;
/** First bytes of a member, by which it is found. Of several with the same beginning, the newest is kept. */
const KEY_BYTES = 512;

/** A body whose member is known: the body with a mark in its place, and the value of the member. */
export interface KnownMember {
  marked: Buffer;
  value: readonly unknown[];
}

/**
 * A member of a body, an array, which many callers send alike: each student of a class starts with the same questions. It is parsed and
 * checked for the first of them alone. The others send the same bytes, and get the same value, so no handler may change it.
 */
export class RepeatedMember {
  readonly name: string;
  readonly #quotedName: Buffer;
  /** A text that no caller can know. If it is a member of the parsed body, then that member is the known one, and no other. */
  readonly #mark = randomUUID();
  readonly #quotedMark = Buffer.from(JSON.stringify(this.#mark));
  readonly #known = new LRUCache<string, { bytes: Buffer; value: readonly unknown[] }>({ maxSize: KEPT_BYTES });

  constructor(name: string) {
    this.name = name;
    this.#quotedName = Buffer.from(JSON.stringify(name));
  }

  /** Returns the body by its known member, or undefined. */
  find(body: Buffer): KnownMember | undefined {
    const from = this.#known.size === 0 ? -1 : this.#begin(body);
    if (from === -1) return undefined;
    const known = this.#known.get(keyAt(body, from));
    if (known === undefined) return undefined;
    const to = from + known.bytes.length;
    if (to > body.length || known.bytes.compare(body, from, to) !== 0) return undefined;
    return { marked: this.#marked(body, from, to), value: known.value };
  }

  /** Returns true if the value of a marked body has the mark as its member. */
  isMarked(value: unknown): value is Record<string, unknown> {
    return isJsonObject(value) && value[this.name] === this.#mark;
  }

  /** Keeps the member of a body that has no faults. `body` is its JSON, and `value` what its check has left of it. */
  keep(body: Buffer, value: unknown): void {
    const member = isJsonObject(value) ? value[this.name] : undefined;
    const from = this.#begin(body);
    if (from === -1 || !Array.isArray(member)) return;
    const to = endOfArray(body, from);
    const length = to - from;
    if (length < LEAST_BYTES || length > MOST_BYTES) return;
    // The name may be first that of a member further inside, or part of a name with an escape.
    if (!this.isMarked(JSON.parse(this.#marked(body, from, to).toString()))) return;
    // A copy: the body may be a part of a larger buffer, which would stay in memory with it.
    const bytes = Buffer.from(body.subarray(from, to));
    this.#known.set(keyAt(body, from), { bytes, value: member }, { size: length });
  }

  /** Returns the position of the array after the first such name, or -1. */
  #begin(body: Buffer): number {
    const name = body.indexOf(this.#quotedName);
    if (name === -1) return -1;
    const colon = afterSpace(body, name + this.#quotedName.length);
    const at = body[colon] === COLON ? afterSpace(body, colon + 1) : -1;
    return body[at] === OPEN_ARRAY ? at : -1;
  }

  #marked(body: Buffer, from: number, to: number): Buffer {
    return Buffer.concat([body.subarray(0, from), this.#quotedMark, body.subarray(to)]);
  }
}

const [QUOTE, COLON, OPEN_ARRAY, CLOSE_ARRAY] = [0x22, 0x3a, 0x5b, 0x5d];

function keyAt(body: Buffer, from: number): string {
  return body.toString('latin1', from, from + KEY_BYTES);
}

function afterSpace(body: Buffer, from: number): number {
  let at = from;
  while (body[at] === 0x20 || body[at] === 0x0a || body[at] === 0x0d || body[at] === 0x09) at += 1;
  return at;
}

/** Returns the position after the array that begins at `from`, or a position that is too far for one to be kept. The bytes are JSON. */
function endOfArray(body: Buffer, from: number): number {
  const last = Math.min(body.length, from + MOST_BYTES);
  let depth = 0;
  for (let at = from; at < last; at += 1) {
    const byte = body[at];
    if (byte === QUOTE) at = endOfString(body, at);
    else if (byte === OPEN_ARRAY) depth += 1;
    else if (byte === CLOSE_ARRAY) {
      depth -= 1;
      if (depth === 0) return at + 1;
    }
  }
  return from + MOST_BYTES + 1;
}
