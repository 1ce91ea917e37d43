/** What one pass over the bytes of a JSON text tells before it is parsed. */
export interface Scan {
  /** Deepest nesting of arrays and objects, counted no further than `maxDepth + 1`. */
  depth: number;
  /** True when a number could be infinite, or a string a forbidden key or no well-formed text. */
  suspicious: boolean;
  ascii: boolean;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const SMALL_U = 0x75;
/** No double of fewer digits overflows: 1e308 has 309. */
const LONGEST_FINITE = 308;

/**
 * Counts nesting before `JSON.parse` builds it: 8 MiB of `[` would become millions of arrays first. Also tells
 * whether the parsed tree needs a walk, which nearly all bodies are spared. Exact for valid JSON; invalid JSON is left
 * to the parser.
 */
export function scanJson(bytes: Uint8Array, maxDepth: number): Scan {
  let depth = 0;
  let deepest = 0;
  let digits = 0;
  let every = 0;
  let suspicious = false;
  const end = bytes.length;
  for (let i = 0; i < end; i += 1) {
    const byte = bytes[i] ?? 0;
    every |= byte;
    if (byte >= 0x30 && byte <= 0x39) {
      digits += 1;
      if (digits > LONGEST_FINITE) suspicious = true;
      continue;
    }
    if (byte === QUOTE) {
      i += 1;
      if (mayBeForbidden(bytes, i)) suspicious = true;
      for (; i < end && bytes[i] !== QUOTE; i += 1) {
        every |= bytes[i] ?? 0;
        if (bytes[i] === BACKSLASH) {
          i += 1;
          if (bytes[i] === SMALL_U) suspicious = true;
        }
      }
    } else if (byte === 0x5b || byte === 0x7b) {
      depth += 1;
      if (depth > deepest) deepest = depth;
      if (depth > maxDepth) break;
    } else if (byte === 0x5d || byte === 0x7d) {
      depth -= 1;
    } else if ((byte === 0x65 || byte === 0x45) && digits > 0) {
      // An exponent: only this can make a short number infinite.
      suspicious = true;
    }
    if (byte !== 0x2e) digits = 0;
  }
  return { depth: deepest, suspicious, ascii: every < 0x80 };
}

/** The first letters of `__proto__` and `constructor`; written otherwise they need an escape. */
function mayBeForbidden(bytes: Uint8Array, at: number): boolean {
  if (bytes[at] === 0x5f) return bytes[at + 1] === 0x5f;
  return bytes[at] === 0x63 && bytes[at + 3] === 0x73 && bytes[at + 4] === 0x74;
}
