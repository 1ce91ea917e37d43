import type { Head } from '#api/route.ts';
import type { Rejection } from '#shared/kernel/errors.ts';

/** What the head announces: no body at all, or one of `length` bytes (undefined when it comes in chunks). */
export type Announced = { body: false } | { body: true; length: number | undefined; typeMissing: boolean };

const NO_BODY: Announced = { body: false };
const JSON_TYPE = /^application\/json[ \t]*(?:;|$)/i;
const CHARSET = /;[ \t]*charset[ \t]*=[ \t]*"?([^\s;"]*)"?/i;

/**
 * Judges media type, encoding and announced size, in this order, before a byte of the body is read. A request
 * without a body has no type to judge. A chunked body without any Content-Type is let through with `typeMissing`:
 * only its first byte tells whether there is something to have a type.
 */
export function judgeBodyHead(head: Head, maxBytes: number): Announced | Rejection {
  const { headers, repeated } = head;
  const chunked = headers['transfer-encoding'] !== undefined;
  const length = chunked ? undefined : Number(headers['content-length'] ?? 0);
  if (length === 0) return NO_BODY;

  const type = headers['content-type'];
  const typeMissing = type === undefined && chunked;
  if (!typeMissing && (type === undefined || repeated.has('content-type') || !isJson(type))) {
    return { rejected: 'UNSUPPORTED_MEDIA_TYPE' };
  }
  const encoding = headers['content-encoding'];
  if (encoding !== undefined && encoding.trim().toLowerCase() !== 'identity') {
    return { rejected: 'UNSUPPORTED_ENCODING' };
  }
  // An unreadable length cannot get here (Node's parser refuses it), but NaN must not pass as small.
  if (length !== undefined && !(length <= maxBytes)) return tooLarge(maxBytes);
  return { body: true, length, typeMissing };
}

export function tooLarge(maxBytes: number): Rejection {
  return { rejected: 'PAYLOAD_TOO_LARGE', message: `The body is larger than ${maxBytes} bytes` };
}

/** RFC 8259 knows one charset; a body in another would be decoded as what it is not. */
function isJson(type: string): boolean {
  if (!JSON_TYPE.test(type)) return false;
  const charset = CHARSET.exec(type)?.[1]?.toLowerCase();
  return charset === undefined || charset === 'utf-8' || charset === 'utf8';
}
