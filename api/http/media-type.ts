import type { Head } from '#api/route.ts';
import type { FaultDetail } from '#shared/kernel/errors.ts';
import { hasMarkRun, MARK_RUN_FAULT } from '#shared/kernel/text.ts';

const JSON_TYPE = /^application\/json[ \t]*(?:;|$)/i;
const CHARSET = /;[ \t]*charset[ \t]*=[ \t]*"?([^\s;"]*)"?/i;
/** The types that a page of any origin may send without the browser's preflight request. */
const FORM_TYPE = /^(?:application\/x-www-form-urlencoded|multipart\/form-data|text\/plain)[ \t]*(?:;|$)/i;

/** Returns true for JSON in UTF-8, the only charset of RFC 8259. A body in another charset would be decoded wrongly. */
export function isJson(type: string): boolean {
  if (!JSON_TYPE.test(type)) return false;
  const charset = CHARSET.exec(type)?.[1]?.toLowerCase();
  return charset === undefined || charset === 'utf-8' || charset === 'utf8';
}

const URL_ENCODED = /^application\/x-www-form-urlencoded[ \t]*(?:;|$)/i;

/** Returns true for the fields of a form, the only body that the pages of the console send. */
export function isUrlEncoded(type: string): boolean {
  return URL_ENCODED.test(type);
}

/**
 * Parses the fields of a form, in their order. Any bytes are a form: what is not UTF-8 becomes U+FFFD. A value with a run of combining marks
 * is a fault, except in the fields of `anyMarks` (`/field`).
 */
export function parseForm(
  bytes: Buffer,
  anyMarks: readonly string[],
): { value: { fields: { name: string; value: string }[] }; faults: FaultDetail[] } {
  const fields = [...new URLSearchParams(bytes.toString('utf8'))].map(([name, value]) => ({ name, value }));
  const faults = fields.flatMap(({ name, value }, index) =>
    !anyMarks.includes(`/${name}`) && hasMarkRun(value)
      ? [{ path: `/fields/${index}/value`, message: MARK_RUN_FAULT }]
      : [],
  );
  return { value: { fields }, faults };
}

/** Returns true if a body follows the head, or may follow it in chunks. */
export function announcesBody({ headers }: Head): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) !== 0;
}

/**
 * Returns true for a request that a form of a foreign page could have sent: a POST with such a media type, even without a body.
 * Another method needs a body too. Where the gateway uses cookies, that page would otherwise act as the person who reads it.
 */
export function isForm(head: Head): boolean {
  const type = head.headers['content-type'];
  if (type === undefined || head.method === 'GET' || head.method === 'HEAD') return false;
  if (head.method !== 'POST' && !announcesBody(head)) return false;
  return head.repeated.has('content-type') || FORM_TYPE.test(type);
}
