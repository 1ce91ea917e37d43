import type { Credentials } from './credentials.ts';
import { ExamhallError, errorOf, parsed } from './examhall-error.ts';

/** Time of the client. A test may replace it. */
export interface Clock {
  /** Returns milliseconds that never go back. */
  now(): number;
  /** Resolves after `ms`. Rejects with the reason of `signal` if that aborts first. */
  pause(ms: number, signal?: AbortSignal): Promise<void>;
}

/** How requests leave the client. */
export interface Transport {
  readonly fetch: typeof fetch;
  readonly clock: Clock;
  /** Most requests of one call. */
  readonly tries: number;
  /** Longest pause before a repeat (ms). A reply that requires a longer one is thrown. */
  readonly maxPauseMs: number;
}

/** A request that has ended, with or without a reply. */
export interface SentRequest {
  /** The operation; while the client waits for the result of a 202, the one that reads it. */
  readonly operation: string;
  /** Status of the reply; 0 without a whole one. */
  readonly status: number;
  /** Time from the request to the end of its reply (ms). */
  readonly ms: number;
}

/** Settings that all requests of a client share. */
export interface RequestSettings {
  readonly baseUrl: string;
  readonly gatewayToken?: string | undefined;
  readonly timeoutMs?: number;
  readonly observe?: (sent: SentRequest) => void;
  readonly transport: Transport;
  readonly credentials: Credentials;
}

/** Time limit of one request, unless the client or the call sets another (ms). */
export const TIMEOUT_MS = 15_000;

export interface Exchange {
  readonly operation: string;
  readonly url: string;
  readonly method: string;
  readonly headers: Headers;
  readonly body?: string;
  /** True if a second request does no harm although the first one may have arrived. */
  readonly isReplaySafe: boolean;
  /** Time limit of one request (ms). */
  readonly timeoutMs: number;
  /** Time of the clock after which nothing is repeated. */
  readonly giveUpAt: number;
  readonly signal?: AbortSignal | undefined;
  /** Receives each request after its end, unless `signal` has ended it. */
  observe(sent: SentRequest): void;
}

export interface Reply {
  readonly status: number;
  readonly data: unknown;
  /** Device token of a reply that signs in. */
  readonly deviceToken: string | null;
}

/** First pause before a repeat that the server set no time for (ms); it doubles. */
const FIRST_PAUSE_MS = 250;

/** Sends a request, repeats it where that is allowed, and returns the reply of a success. @throws ExamhallError */
export async function exchange(transport: Transport, request: Exchange): Promise<Reply> {
  for (let sent = 1; ; sent += 1) {
    const began = transport.clock.now();
    const reply = await send(transport, request);
    request.observe({ operation: request.operation, status: reply.status, ms: transport.clock.now() - began });
    if (!(reply instanceof ExamhallError)) return reply;
    const pauseMs = pauseAfter(transport, request, reply, sent);
    if (pauseMs === null) throw reply;
    await transport.clock.pause(pauseMs, request.signal);
  }
}

async function send(transport: Transport, request: Exchange): Promise<Reply | ExamhallError> {
  const { operation, url, method, headers, body } = request;
  const limit = AbortSignal.timeout(request.timeoutMs);
  const signal = request.signal === undefined ? limit : AbortSignal.any([request.signal, limit]);
  request.signal?.throwIfAborted();
  let response: Response;
  let text: string;
  try {
    const init = { method, headers, signal, redirect: 'error' as const, ...(body === undefined ? {} : { body }) };
    response = await transport.fetch(url, init);
    text = isFile(response) ? await wholeText(response) : await response.text();
  } catch (cause) {
    request.signal?.throwIfAborted();
    return noReply(operation, cause);
  }
  if (response.ok && isFile(response)) return { status: response.status, data: text, deviceToken: null };
  const reply = parsed(text) as { success?: unknown; data?: unknown } | null | undefined;
  const deviceToken = response.headers.get('x-device-token');
  if (response.ok && reply?.success === true) return { status: response.status, data: reply.data, deviceToken };
  return errorOf(operation, response, text);
}

/** Media types of replies without an envelope. A page of a proxy has another one. */
const FILES = ['text/csv', 'image/svg+xml'];

function isFile({ headers }: Response): boolean {
  return FILES.some((type) => headers.get('content-type')?.startsWith(type) === true);
}

/** Returns the text with its byte order mark, by which a spreadsheet knows a saved file. */
async function wholeText(response: Response): Promise<string> {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(await response.arrayBuffer());
}

export function noReply(operation: string, cause: unknown): ExamhallError {
  return new ExamhallError({ operation, code: 'NO_REPLY', message: 'no whole reply arrived', cause });
}

/** Returns the pause before the next request (ms), or null if the failure is final. */
function pauseAfter(transport: Transport, request: Exchange, error: ExamhallError, sent: number): number | null {
  const mayRepeat = error.kind === 'refused' || (error.kind === 'unknown' && request.isReplaySafe);
  if (sent >= transport.tries || !mayRepeat) return null;
  const pauseMs = pauseFor(error, sent);
  const isTooLong = pauseMs > transport.maxPauseMs || transport.clock.now() + pauseMs > request.giveUpAt;
  return isTooLong ? null : pauseMs;
}

/** Returns a growing pause with a random part, and never less than the server requires. `failures` counts from 1. */
export function pauseFor({ retryAfterSeconds }: ExamhallError, failures: number): number {
  const growing = FIRST_PAUSE_MS * 2 ** (failures - 1);
  return (retryAfterSeconds ?? 0) * 1_000 + growing * (0.5 + Math.random() / 2);
}

/** The clock of the machine. */
export const MACHINE_CLOCK: Clock = {
  now: () => performance.now(),
  pause(ms, signal) {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const abort = () => {
        clearTimeout(timer);
        reject(signal?.reason);
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener('abort', abort);
        resolve();
      }, ms);
      signal?.addEventListener('abort', abort, { once: true });
    });
  },
};

/** Ids that a path may hold. */
const ID = /^[A-Za-z0-9._:-]{1,128}$/;

/**
 * Returns the address of a request. `given` has the parameters of the path beside `query`, whose absent members are left out.
 * @throws TypeError if a parameter of the path is no id, because another one would name another route
 */
export function urlOf(baseUrl: string, path: string, given: object): string {
  const values = given as Readonly<Record<string, unknown>>;
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = values[name];
    // A URL drops the segments "." and "..", also in their encoded forms.
    if (typeof value !== 'string' || !ID.test(value) || value === '.' || value === '..') {
      throw new TypeError(`\`${name}\` is not an id: ${JSON.stringify(value)}`);
    }
    return encodeURIComponent(value);
  });
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values.query ?? {})) {
    if (value !== undefined && value !== null) query.set(name, String(value));
  }
  const search = query.toString();
  return `${baseUrl.replace(/\/+$/, '')}${filled}${search === '' ? '' : `?${search}`}`;
}
