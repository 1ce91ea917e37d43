import type { Pieces } from './pieces.ts';
import { beginningOf } from './text.ts';

/** A member of a JSON object that may be absent or null under its schema. */
export type Optional<T> = T | null | undefined;

/** Returns true if parsed JSON is an object and not an array. */
export function isJsonObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns a JSON object as it is, and an empty object for any other value. */
export function membersOf(value: unknown): Readonly<Record<string, unknown>> {
  return isJsonObject(value) ? value : {};
}

/** Returns true if a parsed JSON value is nested deeper than so many levels. */
export function isDeeperThan(levels: number, value: unknown): boolean {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > levels) return true;
    level = level.flatMap((one) => (typeof one === 'object' && one !== null ? Object.values(one) : []));
  }
  return false;
}

/** Returns a member name as replies show it: well-formed, and cut so that a giant name does not cause a giant reply. */
export function shownName(name: string): string {
  return (name.length > 128 ? `${beginningOf(name, 128)}...` : name).toWellFormed();
}

/** Returns a shown member name in the form of a JSON pointer (RFC 6901). */
export function escapePointer(name: string): string {
  return shownName(name).replaceAll('~', '~0').replaceAll('/', '~1');
}

/**
 * A value that is stored as JSON text, and written as it is. Without it, a list of a hundred rows with free maps would be parsed to be
 * written again.
 */
export class JsonPart {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  /** Returns the value, for `JSON.stringify`. */
  toJSON(): unknown {
    return JSON.parse(this.text);
  }
}

/** Items and members from which a list or an object is written one by one. */
const LONG_LIST = 32;
const LONG_OBJECT = 1_000;
/** Levels that are searched for long lists and stored texts: replies have them near the top. */
const LEVELS = 6;
/** Items and members that are written in one piece. */
const AT_ONCE = 16;

/**
 * Returns the JSON text of a value as `JSON.stringify` does, in pieces if it holds long lists. Undefined for a value that has no text.
 */
export function* jsonText(value: unknown, levels = LEVELS): Pieces<string | undefined> {
  if (value instanceof JsonPart) return value.text;
  if (!isWrittenByParts(value, levels)) return JSON.stringify(value);
  yield;
  const parts: string[] = [];
  if (Array.isArray(value)) {
    for (const item of value) {
      parts.push((yield* jsonText(item, levels - 1)) ?? 'null');
      if (parts.length % AT_ONCE === 0) yield;
    }
    return `[${parts.join()}]`;
  }
  const object = value as Readonly<Record<string, unknown>>;
  for (const name of Object.keys(object)) {
    const text = yield* jsonText(object[name], levels - 1);
    if (text !== undefined) parts.push(`${JSON.stringify(name)}:${text}`);
    if (parts.length % AT_ONCE === 0) yield;
  }
  return `{${parts.join()}}`;
}

function isWrittenByParts(value: unknown, levels: number): boolean {
  if (levels === 0 || typeof value !== 'object' || value === null) return false;
  if (value instanceof JsonPart) return true;
  if (Array.isArray(value))
    return value.length >= LONG_LIST || value.some((item) => isWrittenByParts(item, levels - 1));
  // A value that writes itself, such as a time, has no members.
  if ('toJSON' in value) return false;
  const names = Object.keys(value);
  const object = value as Readonly<Record<string, unknown>>;
  return names.length >= LONG_OBJECT || names.some((name) => isWrittenByParts(object[name], levels - 1));
}
