import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Call, Head, Identity } from '#api/route.ts';
import type { Rejection } from '#shared/kernel/errors.ts';

/** One request with its response, and what the server remembers about them until the last byte is written. */
export interface Exchange {
  request: IncomingMessage;
  response: ServerResponse;
  requestId: string;
  /** Path of the route as mounted, never the path as sent: it labels logs and metrics. */
  template: string;
  identity: Identity;
  /** `performance.now()` at the start and when the reply was handed to the socket. */
  startedAt: number;
  answeredAt: number | undefined;
  /** Bytes that this request holds of the body budget. */
  reserved: number;
  /** Set while the body is being read: how a fault of the connection reaches the reader. */
  interrupt: ((why: Rejection) => void) | undefined;
  /** The rest of the body will not come, or nobody could tell where it ends: the connection ends with the reply. */
  broken: boolean;
  abort: AbortController | undefined;
}

const UNROUTED = '(none)';

export function newExchange(request: IncomingMessage, response: ServerResponse): Exchange {
  return {
    request,
    response,
    requestId: requestIdOf(request.headers['x-request-id']),
    template: UNROUTED,
    identity: {},
    startedAt: performance.now(),
    answeredAt: undefined,
    reserved: 0,
    interrupt: undefined,
    broken: false,
    abort: undefined,
  };
}

const ACCEPTED = /^[\w.-]{1,128}$/;

/** The caller's X-Request-Id when it is harmless in a header and a log line, else a new one. */
export function requestIdOf(header: string | string[] | undefined): string {
  return typeof header === 'string' && ACCEPTED.test(header) ? header : randomUUID();
}

/** True once the client cannot be answered any more. */
export function isGone(exchange: Exchange): boolean {
  return exchange.response.destroyed || exchange.request.socket.destroyed;
}

const ABSOLUTE = /^https?:\/\/[^/?#]*/i;

/**
 * Splits a request target into path and raw query. The absolute form (`GET http://host/path`) must be accepted
 * (RFC 9112, section 3.2.2); its authority is ignored. Nothing is decoded or normalised here.
 */
export function splitTarget(target: string): { path: string; query: string } {
  let origin = target;
  if (target.charCodeAt(0) !== 0x2f) {
    origin = target.replace(ABSOLUTE, '');
    if (origin === '' || origin.startsWith('?')) origin = `/${origin}`;
  }
  const mark = origin.indexOf('?');
  if (mark === -1) return { path: origin, query: '' };
  return { path: origin.slice(0, mark), query: origin.slice(mark + 1) };
}

const NONE: ReadonlySet<string> = new Set();

/**
 * The head of a request as guards read it. Node joins or drops a header that came twice, which would let a second
 * X-User-Id pass unseen; `repeated` is found in the raw list instead.
 */
export function readHead(
  request: IncomingMessage,
  method: string,
  path: string,
  params: Readonly<Record<string, string>>,
): Head {
  const headers = request.headers as Readonly<Record<string, string | undefined>>;
  const raw = request.rawHeaders;
  let distinct = 0;
  for (const _ in headers) distinct += 1;
  return { method, path, headers, params, repeated: distinct * 2 === raw.length ? NONE : repeatedNames(raw) };
}

function repeatedNames(raw: readonly string[]): ReadonlySet<string> {
  const seen = new Set<string>();
  const repeated = new Set<string>();
  for (let i = 0; i < raw.length; i += 2) {
    const name = (raw[i] ?? '').toLowerCase();
    if (seen.has(name)) repeated.add(name);
    else seen.add(name);
  }
  return repeated;
}

/** The value of a header that came exactly once, else undefined: a second one may be an attacker's. */
export function singleHeader(head: Head, name: string): string | undefined {
  return head.repeated.has(name) ? undefined : head.headers[name];
}

/** The call that a handler gets. Its AbortSignal is made when first asked for: most handlers never do. */
export class RouteCall implements Call<never, never> {
  readonly requestId: string;
  readonly params: Readonly<Record<string, string>>;
  readonly query: never;
  readonly body: never;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly identity: Identity;
  readonly peer: string;
  readonly #signal: () => AbortSignal;

  constructor(
    exchange: Exchange,
    head: { params: Readonly<Record<string, string>>; headers: Readonly<Record<string, string | undefined>> },
    input: { body: unknown; query: unknown },
    signal: () => AbortSignal,
  ) {
    this.requestId = exchange.requestId;
    this.params = head.params;
    this.headers = head.headers;
    this.identity = exchange.identity;
    this.peer = exchange.request.socket.remoteAddress ?? '';
    // Checked by the route's schemas just before; the handler names the generated types.
    this.body = input.body as never;
    this.query = input.query as never;
    this.#signal = signal;
  }

  get signal(): AbortSignal {
    return this.#signal();
  }
}

/** The AbortSignals of requests whose handlers asked for one. */
interface ClientSignals {
  /** Aborted when the client leaves before its answer is whole, or by `cut`. */
  of(exchange: Exchange): AbortSignal;
  /** Aborts all: the process must stop now. */
  cut(): void;
}

export function openClientSignals(): ClientSignals {
  const live = new Set<AbortController>();
  return {
    of(exchange) {
      if (exchange.abort !== undefined) return exchange.abort.signal;
      const controller = new AbortController();
      exchange.abort = controller;
      if (isGone(exchange)) {
        controller.abort();
      } else {
        live.add(controller);
        exchange.response.once('close', () => {
          live.delete(controller);
          if (!exchange.response.writableFinished) controller.abort();
        });
      }
      return controller.signal;
    },
    cut() {
      for (const controller of live) controller.abort();
    },
  };
}
