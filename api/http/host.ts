import type { IncomingMessage } from 'node:http';
import { isIPv4, isIPv6 } from 'node:net';
import type { Refusal } from './reply.ts';

const CLOSING = { headers: { Connection: 'close' } };
const WITHOUT_HOST: Refusal = { rejected: 'VALIDATION_FAILED', message: 'The Host header is missing', ...CLOSING };
const TWO_HOSTS: Refusal = { rejected: 'VALIDATION_FAILED', message: 'The Host header is sent twice', ...CLOSING };
const MALFORMED: Refusal = { rejected: 'VALIDATION_FAILED', message: 'The host of the request is invalid', ...CLOSING };
const ELSEWHERE: Refusal = { rejected: 'MISDIRECTED_REQUEST' };

/** Returns the refusal of a request by the host that it names, or undefined. `repeated`: names of headers that were sent twice. */
export type HostCheck = (request: HostedRequest, repeated: ReadonlySet<string>) => Refusal | undefined;

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
