import type { IncomingMessage } from 'node:http';
import { isIPv4, isIPv6 } from 'node:net';
import type { Head } from '#api/route.ts';
import type { FaultDetail } from '#shared/kernel/errors.ts';
import { hasMarkRun, MARK_RUN_FAULT } from '#shared/kernel/text.ts';
import type { Refusal } from './reply.ts';

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
function announcesBody({ headers }: Head): boolean {
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

const CLOSING = { headers: { Connection: 'close' } };
const WITHOUT_HOST: Refusal = { rejected: 'VALIDATION_FAILED', message: 'The Host header is missing', ...CLOSING };
const TWO_HOSTS: Refusal = { rejected: 'VALIDATION_FAILED', message: 'The Host header is sent twice', ...CLOSING };
const MALFORMED: Refusal = { rejected: 'VALIDATION_FAILED', message: 'The host of the request is invalid', ...CLOSING };
const ELSEWHERE: Refusal = { rejected: 'MISDIRECTED_REQUEST' };

/** Returns the refusal of a request by the host that it names, or undefined. `repeated`: names of headers that were sent twice. */
type HostCheck = (request: HostedRequest, repeated: ReadonlySet<string>) => Refusal | undefined;

type HostedRequest = Pick<IncomingMessage, 'headers' | 'httpVersionMinor' | 'url'>;

/**
 * Opens the check of hosts. A request has one Host header (RFC 9112, section 3.2), and an empty value is valid. Two proxies could otherwise
 * read two different hosts from one request. The authority of an absolute target is checked as well.
 *
 * With `loopbackOnly`, both must name this machine. A foreign page whose own name resolves to 127.0.0.1 is otherwise of the same origin as
 * this process, and may send the headers of an ADMIN.
 */
export function openHostCheck({ loopbackOnly }: { loopbackOnly: boolean }): HostCheck {
  return ({ headers: { host }, httpVersionMinor, url = '' }, repeated) => {
    if (host === undefined) return httpVersionMinor > 0 ? WITHOUT_HOST : undefined;
    if (repeated.has('host')) return TWO_HOSTS;
    const authority = authorityOf(url);
    if (!isHost(host) || authority === '' || !isHost(authority ?? '')) return MALFORMED;
    if (!loopbackOnly) return undefined;
    return isThisMachine(host) && isThisMachine(authority ?? '') ? undefined : ELSEWHERE;
  };
}

const ABSOLUTE = /^https?:\/\/([^/?#]*)/i;

/** Returns the authority of a target in absolute form; undefined for any other target. */
function authorityOf(target: string): string | undefined {
  return target.charCodeAt(0) === 0x2f ? undefined : ABSOLUTE.exec(target)?.[1];
}

/** A name of RFC 3986, section 3.2.2, or a literal of IPv6 in brackets; then an optional port. */
const HOST = /^(?:(?:[\w.~!$&'()*+,;=-]|%[0-9a-f]{2})+|\[([\da-f:.]+)\])(?::\d*)?$/i;

function isHost(text: string): boolean {
  if (text === '') return true;
  const found = HOST.exec(text);
  return found !== null && (found[1] === undefined || isIPv6(found[1]));
}

/**
 * Returns true for an address of loopback, and for a name without a dot, such as `localhost`: a page on the web has a registered domain in
 * its name. An empty host passes too, because no browser sends one.
 */
function isThisMachine(host: string): boolean {
  const name = host.replace(/:\d*$/, '');
  if (name.startsWith('[')) return name === '[::1]';
  return isIPv4(name) ? name.startsWith('127.') : !name.includes('.');
}

/** Header of a reply that has honoured `return=minimal` (RFC 7240, 3). */
export const MINIMAL_APPLIED = { 'Preference-Applied': 'return=minimal' };

const MINIMAL: ReadonlySet<string> = new Set(['minimal', '"minimal"']);

/**
 * Returns true if a `Prefer` header requests `return=minimal`. Of two preferences of one name the first counts, and an unknown or
 * malformed one is ignored, as RFC 7240 demands: a preference never fails a request. Parameters behind one mean nothing here. The parts
 * are split by hand, because one pattern for all of them takes the square of a run of spaces.
 */
export function isMinimalPreferred(header: string | undefined): boolean {
  for (const part of (header ?? '').split(',')) {
    const [preference = ''] = part.split(';');
    const [name = '', value = ''] = preference.split('=');
    if (name.trim().toLowerCase() === 'return') return MINIMAL.has(value.trim().toLowerCase());
  }
  return false;
}
