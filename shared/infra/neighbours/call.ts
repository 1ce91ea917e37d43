import type { Neighbour } from '#infra/config/settings.ts';
import { membersOf } from '#shared/kernel/json-object.ts';

/** What another service answered. The body is read whole, up to a cap; null where it was not JSON. */
export interface ServiceReply {
  status: number;
  body: unknown;
  /** From Retry-After, in milliseconds; null when absent or unreadable. */
  retryAfterMs: number | null;
}

/** Bounds of one call. */
export interface Patience {
  /** Over connect, headers and body together (ms). */
  timeoutMs: number;
  signal?: AbortSignal;
}

interface ServiceCall extends Patience {
  method: 'GET' | 'POST';
  url: string;
  /** The service that calls, and the token that proves it, where one is configured. */
  sender: string;
  token: string | undefined;
  headers?: Record<string, string>;
  body?: unknown;
  /** A longer reply is none; 1 MiB unless given. */
  maxReplyBytes?: number;
}

const MAX_REPLY_BYTES = 1024 * 1024;

/**
 * One call to a neighbour. Any answer is a reply, whatever its status; rejects when there is none: refused, reset,
 * timed out, too large. Redirects are not followed, so a token never travels to where it was not configured to.
 */
export async function callService(call: ServiceCall): Promise<ServiceReply> {
  const timeout = AbortSignal.timeout(call.timeoutMs);
  const response = await fetch(call.url, {
    method: call.method,
    redirect: 'manual',
    headers: {
      'x-internal-service': call.sender,
      ...(call.token === undefined ? {} : { 'x-internal-token': call.token }),
      ...(call.body === undefined ? {} : { 'content-type': 'application/json' }),
      ...call.headers,
    },
    signal: call.signal === undefined ? timeout : AbortSignal.any([timeout, call.signal]),
    ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
  });
  const text = await readCapped(response, call.maxReplyBytes ?? MAX_REPLY_BYTES);
  return { status: response.status, body: parse(text), retryAfterMs: retryAfterMs(response.headers) };
}

/**
 * Posts an event to the intake of a neighbour, below `/v1/events`. Any answer is a reply.
 * @throws as `callService` does
 */
export function postEvent(
  { url, token }: Neighbour,
  { path = '', sender, body }: { path?: string; sender: string; body: unknown },
  patience: Patience,
): Promise<ServiceReply> {
  return callService({ method: 'POST', url: `${url}/v1/events${path}`, sender, token, body, ...patience });
}

/** A call that did not do what it was for: the service answered with no success, or gave no whole answer. */
export type Unserved = { kind: 'refused'; reply: ServiceReply } | { kind: 'unanswered'; error: Error };
export type CallEnd = { kind: 'served'; reply: ServiceReply } | Unserved;

/**
 * Waits for a call and returns how it ended, for a caller that acts on each end.
 * @throws the signal's reason, if that was aborted
 */
export async function endOfCall(call: Promise<ServiceReply>, signal: AbortSignal | undefined): Promise<CallEnd> {
  try {
    const reply = await call;
    return { kind: isSuccess(reply) ? 'served' : 'refused', reply };
  } catch (error) {
    signal?.throwIfAborted();
    return { kind: 'unanswered', error: error instanceof Error ? error : new Error(String(error)) };
  }
}

export function isSuccess({ status }: ServiceReply): boolean {
  return status >= 200 && status < 300;
}

/** A field of the `data` in the envelope of a reply. */
export function dataField(body: unknown, name: string): unknown {
  return membersOf(membersOf(body).data)[name];
}

async function readCapped(response: Response, maxBytes: number): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.byteLength;
    if (size > maxBytes) throw new Error(`the reply is larger than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** JSON.parse messages quote the body, which may hold what no log should: a reply that is not JSON is just null. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/**
 * The patience that an answer asks for (RFC 9110, section 10.2.3), in milliseconds from now; null when it asks for none
 * or cannot be read. A date is counted from the answer's own `Date`: both are of the sender's clock, and ours may be
 * minutes away from it.
 */
export function retryAfterMs(headers: Headers): number | null {
  const value = headers.get('retry-after');
  if (value === null) return null;
  if (/^\d{1,9}$/.test(value)) return Number(value) * 1_000;
  const waitMs = Date.parse(value) - Date.parse(headers.get('date') ?? '');
  return Number.isNaN(waitMs) ? null : Math.max(0, waitMs);
}
