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
