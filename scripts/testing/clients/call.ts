import { type Agent, type ClientRequest, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import { buffer } from 'node:stream/consumers';

/** One HTTP request to `origin`. */
export interface HttpCall {
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

export type HttpHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

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
