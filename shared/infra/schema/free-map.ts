import type { Pieces } from '#shared/kernel/pieces.ts';

/** Limits of a free map. */
export interface FreeLimits {
  maxBytes: number | undefined;
  maxDepth: number | undefined;
}

/** An object or array of a free map, whose members from `next` on are still to be seen. */
interface Level {
  container: Readonly<Record<string | number, unknown>>;
  /** Undefined for an array. */
  names: readonly string[] | undefined;
  length: number;
  next: number;
}

/** Values that are seen in one piece. */
const SEEN_AT_ONCE = 1_024;

/**
 * Returns why a free map (event metadata, student info) cannot be stored as JSON text and returned unchanged, or undefined if it can.
 * An infinity (`1e400`) would be read back as null. The parser has limited the depth (64) and the size of the whole body; a map may
 * have lower limits of its own. The walk ends at the first fault, so that a map costs no more than the largest that is accepted.
 */
export function* freeJsonFault(map: object, { maxBytes, maxDepth }: FreeLimits): Pieces<string | undefined> {
  const levels: Level[] = [levelOf(map)];
  let [bytes, seen] = [2, 0];
  for (let at = levels.at(-1); at !== undefined; at = levels.at(-1)) {
    const { container, names, length, next } = at;
    if (next === length) {
      levels.pop();
      continue;
    }
    at.next += 1;
    const name = names?.[next];
    const member = container[name ?? next];
    if (next > 0) bytes += 1;
    if (name !== undefined) bytes += bytesOfText(name) + 1;
    if (typeof member === 'object' && member !== null) {
      levels.push(levelOf(member));
      bytes += 2;
      if (levels.length > (maxDepth ?? levels.length)) return `must be nested at most ${maxDepth} levels deep`;
    } else {
      if (typeof member === 'number' && !Number.isFinite(member)) return 'must hold finite numbers only';
      bytes += typeof member === 'string' ? bytesOfText(member) : String(member).length;
    }
    if (maxBytes !== undefined && bytes > maxBytes) return `must have at most ${maxBytes} bytes of JSON`;
    seen += 1;
    if (seen % SEEN_AT_ONCE === 0) yield;
  }
  return undefined;
}

function levelOf(value: object): Level {
  const names = Array.isArray(value) ? undefined : Object.keys(value);
  const { length } = names ?? (value as readonly unknown[]);
  return { container: value as Level['container'], names, length, next: 0 };
}

/** Matches a text that JSON writes as it is, one byte a character. */
const PLAIN = /^[ !#-[\]-~]*$/;

/** Returns the bytes of a text in JSON. */
function bytesOfText(text: string): number {
  return PLAIN.test(text) ? text.length + 2 : Buffer.byteLength(JSON.stringify(text));
}
