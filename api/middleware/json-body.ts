import { isUtf8 } from 'node:buffer';
import type { FaultDetail, Rejection } from '#shared/kernel/errors.ts';
import { scanJson } from './json-scan.ts';

const MAX_DEPTH = 64;
/** As many faults as a failure envelope holds. */
const MAX_FAULTS = 1_000;
const BYTE_ORDER_MARK = 0xfeff;

/** A parsed body, with the faults of its values that no schema can see. */
export interface ParsedBody {
  value: unknown;
  faults: FaultDetail[];
}

/**
 * Parses a body. INVALID_JSON: bytes that are not UTF-8 or not JSON, nesting over 64, and keys that would reach a
 * prototype (`__proto__`, `constructor` holding `prototype`) if someone merged the body into an object. Values that
 * JSON can spell but MongoDB or a reply cannot hold (1e400, lone surrogates, NUL in a key) come back as faults.
 * One leading byte order mark is ignored (RFC 8259, section 8.1). The parser's own message quotes the body and
 * goes nowhere.
 */
export function parseBody(bytes: Buffer): ParsedBody | Rejection {
  const scan = scanJson(bytes, MAX_DEPTH);
  if (scan.depth > MAX_DEPTH) {
    return { rejected: 'INVALID_JSON', message: `The body is nested deeper than ${MAX_DEPTH} levels` };
  }
  if (!scan.ascii && !isUtf8(bytes)) return { rejected: 'INVALID_JSON', message: 'The body is not UTF-8' };
  let text = bytes.toString(scan.ascii ? 'latin1' : 'utf8');
  if (text.charCodeAt(0) === BYTE_ORDER_MARK) text = text.slice(1);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { rejected: 'INVALID_JSON' };
  }
  const faults: FaultDetail[] = [];
  if (scan.suspicious && !walk(value, '', faults))
    return { rejected: 'INVALID_JSON', message: 'The body has a forbidden key' };
  return { value, faults };
}

/** False on a forbidden key. Recurses at most `MAX_DEPTH` deep: the scan has refused the rest. */
function walk(value: unknown, path: string, faults: FaultDetail[]): boolean {
  if (typeof value === 'string') {
    if (!value.isWellFormed()) note(faults, path, 'must be well-formed Unicode');
  } else if (typeof value === 'number') {
    if (!Number.isFinite(value)) note(faults, path, 'must be a finite number');
  } else if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i += 1) if (!walk(value[i], `${path}/${i}`, faults)) return false;
  } else if (typeof value === 'object' && value !== null) {
    for (const [key, child] of Object.entries(value)) {
      if (key === '__proto__' || (key === 'constructor' && holdsPrototype(child))) return false;
      const at = `${path}/${pointerToken(key)}`;
      if (key.includes('\0')) note(faults, at, 'must not have NUL in its name');
      if (!key.isWellFormed()) note(faults, at, 'must have a well-formed Unicode name');
      if (!walk(child, at, faults)) return false;
    }
  }
  return true;
}

function holdsPrototype(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, 'prototype');
}

/** RFC 6901, section 3. Made well-formed, or the reply itself could not be encoded faithfully. */
function pointerToken(key: string): string {
  return key.toWellFormed().replaceAll('~', '~0').replaceAll('/', '~1');
}

function note(faults: FaultDetail[], path: string, message: string): void {
  if (faults.length < MAX_FAULTS) faults.push({ path, message });
}
