import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Call, Head, Identity } from '#api/route.ts';
import type { DroppedField } from '#infra/schema/segment.ts';
import { type Cause, causeOfRequest } from '#shared/kernel/cause.ts';
import type { Rejection } from '#shared/kernel/errors.ts';

/** One request with its response, and the server's state of both until the last byte is written. */
export interface Exchange {
  request: IncomingMessage;
  response: ServerResponse;
  /** Id of the request in logs and traces: the caller's, if the caller is proven, otherwise our own. */
  requestId: string;
  /** The id that the client of the caller has chosen, or the caller itself if it is not proven. It is no key of anything. */
  clientRequestId: string | undefined;
  /** `X-Request-Id` of the reply: that of the request, if it has a valid one. */
  repliedId: string;
  /** The request and its trace, as the cause of the work that it starts. */
  cause: Cause;
  /** Path and raw query of the target, as sent. */
  path: string;
  query: string;
  /** Path of the route as mounted, never the path as sent: it labels logs and metrics. */
  template: string;
  /** Values of the path's parameters, which match the form of an id. */
  params: Readonly<Record<string, string>>;
  identity: Identity;
  /** `performance.now()` at the start, and when the reply was passed to the socket. */
  startedAt: number;
  answeredAt: number | undefined;
  /** The part of a body budget that the request holds; set once the body is about to be read. */
  holding: { release(): void } | undefined;
  /** Set while the body is arriving. Passes a fault of the connection to the reader. */
  interrupt: ((why: Rejection) => void) | undefined;
  /** A fault of the connection that came while no reader waited for the body. */
  fault: Rejection | undefined;
  /** True if the rest of the body will not arrive or its end cannot be found; the connection then ends with the reply. */
  broken: boolean;
  /** Controllers of the handler's signals, created when the handler first reads them. */
  abort: AbortController | undefined;
  stop: AbortController | undefined;
  /** True once its handler has ended and its reply is written. */
  ended: boolean;
}

const UNROUTED = '(none)';
const NO_PARAMS = Object.freeze({});

/**
 * Returns the exchange of a request whose head has arrived. Its time begins now. `isProven`: the caller may choose the request's id and
 * continue a trace.
 */
export function newExchange(request: IncomingMessage, response: ServerResponse, isProven: boolean): Exchange {
  const sent = sentId(request.headers['x-request-id']);
  const requestId = (isProven ? sent : undefined) ?? randomUUID();
  const { path, query } = splitTarget(request.url ?? '');
  return {
    request,
    response,
    requestId,
    clientRequestId: isProven ? sentId(request.headers['x-client-request-id']) : sent,
    repliedId: sent ?? requestId,
    cause: causeOfRequest(requestId, isProven ? request.headers : {}),
    path,
    query,
    template: UNROUTED,
    params: NO_PARAMS,
    identity: {},
    startedAt: performance.now(),
    answeredAt: undefined,
    holding: undefined,
    interrupt: undefined,
    fault: undefined,
    broken: false,
    abort: undefined,
    stop: undefined,
    ended: false,
  };
}

const ACCEPTED = /^[\w.-]{1,128}$/;

/** Returns the id in a header if it is safe in a header and a log line. */
function sentId(header: string | string[] | undefined): string | undefined {
  return typeof header === 'string' && ACCEPTED.test(header) ? header : undefined;
}

/** Returns true once no reply can reach the client. */
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
 * Returns the names of the headers that a request has twice. Node joins or drops a repeated header, which would hide a second X-User-Id,
 * so they are read from the raw list.
 */
export function repeatedHeaders({ headers, rawHeaders }: IncomingMessage): ReadonlySet<string> {
  let distinct = 0;
  for (const _ in headers) distinct += 1;
  return distinct * 2 === rawHeaders.length ? NONE : repeatedNames(rawHeaders);
}

/** Returns the head of a request for its guards. */
export function readHead(
  request: IncomingMessage,
  method: string,
  path: string,
  params: Readonly<Record<string, string>>,
  repeated = repeatedHeaders(request),
): Head {
  return { method, path, headers: request.headers as Head['headers'], params, repeated };
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

/** Returns the value of a header that was sent once, otherwise undefined: a second one may be an attacker's. */
export function singleHeader(head: Head, name: string): string | undefined {
  return head.repeated.has(name) ? undefined : head.headers[name];
}

/** The call that a handler gets. Its signals are created at their first use, because most handlers need none. */
export class RouteCall implements Call<never, never> {
  readonly requestId: string;
  readonly params: Readonly<Record<string, string>>;
  readonly query: never;
  readonly body: never;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly identity: Identity;
  readonly peer: string;
  readonly dropped: readonly DroppedField[];
  readonly #exchange: Exchange;
  readonly #running: RunningRequests;

  constructor(
    exchange: Exchange,
    head: { params: Readonly<Record<string, string>>; headers: Readonly<Record<string, string | undefined>> },
    input: { body: unknown; query: unknown; dropped: readonly DroppedField[] },
    running: RunningRequests,
  ) {
    this.requestId = exchange.requestId;
    this.params = head.params;
    this.headers = head.headers;
    this.identity = exchange.identity;
    this.peer = exchange.request.socket.remoteAddress ?? '';
    // The route's schemas have checked both; the handler names the generated types.
    this.body = input.body as never;
    this.query = input.query as never;
    this.dropped = input.dropped;
    this.#exchange = exchange;
    this.#running = running;
  }

  get target(): string {
    return this.#exchange.request.url ?? '';
  }

  get signal(): AbortSignal {
    return this.#running.signalOf(this.#exchange);
  }

  get stop(): AbortSignal {
    return this.#running.stopOf(this.#exchange);
  }
}

/** The running requests of a process, with the signals that their handlers use. */
export interface RunningRequests {
  begin(): void;
  end(exchange: Exchange): void;
  /** Returns the number of running requests. */
  size(): number;
  /** Returns a signal that is aborted when the client leaves before its reply is complete, or by `cut`. */
  signalOf(exchange: Exchange): AbortSignal;
  /** Returns a signal that only `cut` aborts. */
  stopOf(exchange: Exchange): AbortSignal;
  /** Aborts all signals, also those created later, because the process must stop now. */
  cut(): void;
  /** Resolves as soon as no request is running; a request whose client has left counts until its handler ends. */
  idle(): Promise<void>;
}

/** Opens the register of the requests that are running; it is empty at first. */
export function openRunningRequests(): RunningRequests {
  let running = 0;
  /** Running requests whose handler has read a signal. A set of all of them would cost each request an insert and a removal. */
  const signalled = new Set<Exchange>();
  const waiting: (() => void)[] = [];
  let isCut = false;
  return {
    begin() {
      running += 1;
    },
    size: () => running,
    end(exchange) {
      exchange.ended = true;
      if (exchange.abort !== undefined || exchange.stop !== undefined) signalled.delete(exchange);
      running -= 1;
      if (running > 0 || waiting.length === 0) return;
      for (const resolve of waiting.splice(0)) resolve();
    },
    signalOf(exchange) {
      if (exchange.abort !== undefined) return exchange.abort.signal;
      const controller = new AbortController();
      exchange.abort = controller;
      if (!exchange.ended) signalled.add(exchange);
      if (isCut || isGone(exchange)) {
        controller.abort();
      } else {
        exchange.response.once('close', () => {
          if (!exchange.response.writableFinished) controller.abort();
        });
      }
      return controller.signal;
    },
    stopOf(exchange) {
      exchange.stop ??= new AbortController();
      if (!exchange.ended) signalled.add(exchange);
      if (isCut) exchange.stop.abort();
      return exchange.stop.signal;
    },
    cut() {
      isCut = true;
      for (const { abort, stop } of signalled) {
        abort?.abort();
        stop?.abort();
      }
    },
    idle() {
      if (running === 0) return Promise.resolve();
      return new Promise((resolve) => waiting.push(resolve));
    },
  };
}
