import { Agent, type ClientRequest, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';

/** One HTTP request to `origin`. */
interface HttpCall {
  method: string;
  /** Path and query, sent unchanged, so that a test may send a path that a URL would normalize. */
  target: string;
  /** A header with a list of values is sent several times. */
  headers?: HttpHeaders;
  /** An object is sent as JSON with its media type. Text and bytes are sent unchanged, with the media type in `headers`. */
  body?: unknown;
  /** Keeps connections between calls; without an agent, each call opens its own connection. */
  agent?: Agent;
  /** Longest silence of the server in milliseconds; default no limit. */
  timeoutMs?: number;
  /** Cuts the connection when it aborts. */
  signal?: AbortSignal;
  /** Cuts the connection a moment after the request has been sent. The server may or may not have executed the request. */
  hangsUp?: boolean;
}

type HttpHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

export interface HttpAnswer {
  status: number;
  headers: IncomingHttpHeaders;
  body: Buffer;
}

/** A call without a complete reply: refused, reset, cut or timed out. The request may or may not have taken effect. */
export class NoReply extends Error {
  /**
   * True if the request was sent on a kept-alive connection just when the server closed it as idle. No server can prevent that, and
   * clients must be ready to repeat the request (RFC 9112, section 9.3.1).
   */
  readonly metIdleClose: boolean;

  constructor(reason: unknown, metIdleClose = false) {
    super(reason instanceof Error ? reason.message : String(reason), { cause: reason });
    this.name = 'NoReply';
    this.metIdleClose = metIdleClose;
  }
}

/** Delay after which `hangsUp` cuts the connection. */
const HANG_UP_MS = 2;

/** Sends one request and returns the complete reply with any status. @throws NoReply */
export function send(origin: string, call: HttpCall): Promise<HttpAnswer> {
  return new Promise((resolve, reject) => {
    begin(origin, call, reject, (response) => {
      buffer(response).then(
        (body) => resolve({ status: response.statusCode ?? 0, headers: response.headers, body }),
        (error) => reject(new NoReply(error)),
      );
    });
  });
}

/** Sends one request and returns the head of the reply; the caller reads the body. @throws NoReply */
export function openReply(origin: string, call: HttpCall): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => void begin(origin, call, reject, resolve));
}

function begin(
  origin: string,
  { method, target, headers, body, agent, timeoutMs, signal, hangsUp = false }: HttpCall,
  failed: (error: NoReply) => void,
  answered: (response: IncomingMessage) => void,
): ClientRequest {
  const { hostname, port } = new URL(origin);
  const isRaw = typeof body === 'string' || body instanceof Uint8Array;
  const bytes = body === undefined ? undefined : Buffer.from(isRaw ? (body as string) : JSON.stringify(body));
  const sent = request(
    {
      agent: agent ?? false,
      hostname,
      port,
      method,
      path: target,
      headers: headersOf(headers, bytes, isRaw),
      ...(timeoutMs === undefined ? {} : { timeout: timeoutMs }),
      ...(signal === undefined ? {} : { signal }),
    },
    answered,
  );
  sent.on('timeout', () => sent.destroy(new Error(`no reply within ${timeoutMs} ms`)));
  sent.on('error', (error) =>
    failed(new NoReply(error, sent.reusedSocket && 'code' in error && error.code === 'ECONNRESET')),
  );
  sent.end(bytes, () => {
    if (hangsUp) setTimeout(() => sent.destroy(new Error('hung up')), HANG_UP_MS);
  });
  return sent;
}

/** Returns the headers with the length and, for JSON, the media type; `given` overrides both. */
function headersOf(given: HttpHeaders = {}, bytes: Buffer | undefined, isRaw: boolean) {
  const headers: Record<string, string | string[]> = {};
  if (bytes !== undefined) {
    headers['content-length'] = String(bytes.length);
    if (!isRaw) headers['content-type'] = 'application/json';
  }
  for (const [name, value] of Object.entries(given)) {
    if (value !== undefined) headers[name.toLowerCase()] = typeof value === 'string' ? value : [...value];
  }
  return headers;
}

export type HttpRequest = Pick<HttpCall, 'headers' | 'body'>;

// biome-ignore lint/suspicious/noExplicitAny: replies are matched by tests, field by field
export interface HttpReply<Data = any> {
  status: number;
  headers: Readonly<Record<string, string | undefined>>;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: replies are matched by tests, field by field
  json: any;
  /** `json.code`; null without one. */
  code: string | null;
  message: string;
  data: Data;
}

const callers = new Agent({ keepAlive: true, maxSockets: 64 });
const unbounded = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });
/** Twice the longest wait of a front door. */
const TIMEOUT_MS = 120_000;

/** Sends one request. Adds no header but Host, the length and, for a JSON body, its content type. */
export async function callHttp(
  origin: string,
  method: string,
  target: string,
  request: HttpRequest = {},
): Promise<HttpReply> {
  const call = { ...request, method, target, agent: callers };
  try {
    return replyOf(await send(origin, call));
  } catch (error) {
    // The front door may close an idle connection just as it is reused. The request was not read then and is safe to repeat.
    if (!(error instanceof NoReply) || !error.metIdleClose) throw error;
    return replyOf(await send(origin, call));
  }
}

/**
 * Sends one request, never twice; the number of concurrent requests is unbounded. Resolves with any status.
 * @throws NoReply if the connection ends without a reply
 */
export async function exchange<Data = unknown>(
  url: string,
  { method = 'GET', headers = {}, body }: { method?: string; headers?: HttpHeaders; body?: unknown } = {},
): Promise<HttpReply<Data>> {
  const { origin, pathname, search } = new URL(url);
  const call = { method, target: pathname + search, headers, body, agent: unbounded, timeoutMs: TIMEOUT_MS };
  return replyOf(await send(origin, call));
}

function replyOf({ status, headers, body }: HttpAnswer): HttpReply {
  const text = body.toString('utf8');
  const isJson = headers['content-type']?.startsWith('application/json') === true;
  const json = isJson && text !== '' ? JSON.parse(text) : undefined;
  const flat = Object.entries(headers).map(([name, value]) => [name, String(value)]);
  return {
    status,
    headers: Object.fromEntries(flat),
    text,
    json,
    code: json?.code ?? null,
    message: json?.message ?? '',
    data: json?.data,
  };
}

/** Wait before a refused call is repeated. Immediate repeats would keep a busy front door busy. */
const PACE_MS = 50;

/** Runs `work` for 0…count−1, at most `width` at the same time. Returns the results in order. */
export async function crowd<T>(count: number, width: number, work: (index: number) => Promise<T>): Promise<T[]> {
  const results = new Array<T>(count);
  let next = 0;
  async function lane(): Promise<void> {
    for (let index = next++; index < count; index = next++) results[index] = await work(index);
  }
  await Promise.all(Array.from({ length: Math.min(width, count) }, lane));
  return results;
}

/** Returns how often each word occurs: `{ '201': 1, '200': 199 }`. */
export function tally(words: Iterable<string | number>): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const word of words) counts[word] = (counts[word] ?? 0) + 1;
  return counts;
}

/** Repeats a call while the front door answers 503. On a loaded machine a front door may be busy. */
export async function retryOn503<Data>(call: () => Promise<HttpReply<Data>>): Promise<HttpReply<Data>> {
  for (;;) {
    const reply = await call();
    if (reply.status !== 503) return reply;
    await delay(PACE_MS);
  }
}
