import type { CallObserver, CallOutcome, Neighbour } from '#infra/config/settings.ts';
import { inCall, type SentCall } from '#infra/trace/spans.ts';
import { membersOf } from '#shared/kernel/json.ts';
import { parseJsonText } from '#shared/kernel/parse-json.ts';

/** The reply of another service, with its complete body. */
export interface ServiceReply {
  status: number;
  /** Parsed JSON; null if the body is not JSON. */
  body: unknown;
  /** From `Retry-After`, in milliseconds; null if absent or unreadable. */
  retryAfterMs: number | null;
}

/** Limits of one call. */
export interface CallLimits {
  /** Time limit for connect, headers and body together, in milliseconds. */
  timeoutMs: number;
  /** Aborts the call. */
  signal?: AbortSignal;
}

interface ServiceCall extends CallLimits {
  method: 'GET' | 'POST';
  url: string;
  /** Name of the calling service. */
  sender: string;
  /** Proves the sender, if a token is configured. */
  token: string | undefined;
  called: CallObserver | undefined;
  headers?: Record<string, string>;
  body?: unknown;
  /** A longer reply is an error. Default 1 MiB. */
  maxReplyBytes?: number;
}

const MAX_REPLY_BYTES = 1024 * 1024;

/**
 * Calls a neighbour and returns its reply, whatever the status. Rejects if there is no complete reply: connection refused or reset,
 * timeout, body too large. Redirects are not followed, so a token is only ever sent to the configured address.
 */
export function callService(call: ServiceCall): Promise<ServiceReply> {
  return inCall(call, (sent) => observed(call.called, call.signal, () => send(call, sent)));
}

async function send(call: ServiceCall, sent: SentCall): Promise<ServiceReply> {
  const timeout = AbortSignal.timeout(call.timeoutMs);
  const response = await fetch(call.url, {
    method: call.method,
    redirect: 'manual',
    headers: {
      'x-internal-service': call.sender,
      ...(call.token === undefined ? {} : { 'x-internal-token': call.token }),
      ...(call.body === undefined ? {} : { 'content-type': 'application/json' }),
      ...sent.headers(),
      ...call.headers,
    },
    signal: call.signal === undefined ? timeout : AbortSignal.any([timeout, call.signal]),
    ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
  });
  sent.answered(response.status);
  const text = await readCapped(response, call.maxReplyBytes ?? MAX_REPLY_BYTES);
  return { status: response.status, body: parse(text), retryAfterMs: retryAfterMs(response.headers) };
}

/**
 * Makes a call and passes its end to the observer. A call that its own caller aborted is not passed: the service is not its cause.
 *
 * @throws as `call` does
 */
export async function observed<Reply extends { status: number }>(
  observer: CallObserver | undefined,
  signal: AbortSignal | undefined,
  call: () => Promise<Reply>,
): Promise<Reply> {
  const startedAt = performance.now();
  const end = (outcome: CallOutcome) => observer?.(outcome, (performance.now() - startedAt) / 1_000);
  try {
    const reply = await call();
    end(outcomeOf(reply));
    return reply;
  } catch (error) {
    if (signal?.aborted !== true) end('unanswered');
    throw error;
  }
}

function outcomeOf(reply: { status: number }): CallOutcome {
  if (isSuccess(reply)) return 'ok';
  return reply.status >= 500 ? 'failed' : 'refused';
}

/**
 * Posts an event to the intake of a neighbour, below `/v1/events`. Returns the reply, whatever the status.
 *
 * @throws as `callService` does
 */
export function postEvent(
  { url, token, called }: Neighbour,
  { path = '', sender, body }: { path?: string; sender: string; body: unknown },
  limits: CallLimits,
): Promise<ServiceReply> {
  return callService({ method: 'POST', url: `${url}/v1/events${path}`, sender, token, called, body, ...limits });
}

/** A failed call: the service answered with another status than 2xx, or there was no complete reply. */
export type Unserved = { kind: 'refused'; reply: ServiceReply } | { kind: 'unanswered'; error: Error };
export type CallEnd = { kind: 'served'; reply: ServiceReply } | Unserved;

/**
 * Waits for a call and returns how it ended, for a caller that handles each case.
 *
 * @throws the signal's reason, if the signal was aborted
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

/** Returns whether the status is 2xx. */
export function isSuccess({ status }: { status: number }): boolean {
  return status >= 200 && status < 300;
}

/** Returns a field of the `data` in the envelope of a reply, or undefined if it is absent. */
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

/** Returns parsed JSON, or null. The error of JSON.parse is dropped, because it quotes the body, which must not reach a log. */
function parse(text: string): unknown {
  try {
    return parseJsonText(text);
  } catch {
    return null;
  }
}

/**
 * Returns the delay that a reply requests by `Retry-After` (RFC 9110, section 10.2.3), in milliseconds from now, or null if it is
 * absent or unreadable. A date is compared with the reply's own `Date`, because our clock may differ from the sender's by minutes.
 */
export function retryAfterMs(headers: Headers): number | null {
  const value = headers.get('retry-after');
  if (value === null) return null;
  if (/^\d{1,9}$/.test(value)) return Number(value) * 1_000;
  const waitMs = Date.parse(value) - Date.parse(headers.get('date') ?? '');
  return Number.isNaN(waitMs) ? null : Math.max(0, waitMs);
}
