import type { Pieces } from './pieces.ts';

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
