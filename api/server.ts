import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { type BodyLimits, type BodyReader, openBodyReader } from '#api/http/body.ts';
import { openCountedNetwork, openCountedPeer } from '#api/http/caller-address.ts';
import { type DropReason, limitConnections } from '#api/http/connections.ts';
import {
  type Exchange,
  isGone,
  newExchange,
  openRunningRequests,
  RouteCall,
  readHead,
  repeatedHeaders,
} from '#api/http/exchange.ts';
import { type ListenerLimits, openListener } from '#api/http/listener.ts';
import { furtherFaults, parsedBody, UNREAD, withIgnored } from '#api/http/parsed-body.ts';
import {
  NO_SNIFFING,
  type Refusal,
  type Refused,
  refused,
  writeRefusal,
  writeReply,
  writeText,
} from '#api/http/reply.ts';
import { type Match, type MountedRoute, mountRoute } from '#api/http/route-table.ts';
import { guessIn, type WrongTokens } from '#api/http/wrong-tokens.ts';
import type { AccessLine, Log } from '#infra/log/log.ts';
import type { ObserveHttp } from '#infra/metrics/metrics.ts';
import { inPieces } from '#infra/process/in-pieces.ts';
import { MAX_FAULTS, type Schemas } from '#infra/schema/validator.ts';
import { currentScope, inScope } from '#infra/trace/scope.ts';
import { inSpan, isTracing, noteStatus, type SpanNotes } from '#infra/trace/spans.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { type Door, openDoor } from './http/connections.ts';
import { isForm, openHostCheck } from './http/headers.ts';
import type { Head, RawReply, Reply, Route, TextReply } from './route.ts';

export interface ServerDeps {
  routes: readonly Route[];
  schemas: Pick<Schemas, 'checker' | 'queryParser'>;
  log: Log;
  access(line: AccessLine): void;
  /** Returns the hash that names a caller in access lines; undefined until its key is read. Default: no line names its caller. */
  actorHash?: (actorId: string) => string | undefined;
  observe: ObserveHttp;
  /** Returns true for an error that means "MongoDB is unavailable"; the caller then gets 503 and may retry. */
  isOutage(error: unknown): boolean;
  /** Returns true if the caller may choose the id of its request and continue a trace. Default: every caller may. */
  isProven?: (headers: IncomingHttpHeaders) => boolean;
  /** Aborted when the process begins to drain. From then on every reply closes its connection. */
  draining: AbortSignal;
  limits: ServerLimits;
  /** True if a request must name a host of loopback. */
  loopbackOnly?: boolean;
  /** Addresses and networks of the proxies before this process. */
  trustedProxies: readonly string[];
  /** Counts and limits wrong tokens. Default: nothing counts them. */
  wrongTokens?: WrongTokens;
  /** Counts a connection that was closed without a reply. */
  dropped(reason: DropReason): void;
}

export type ServerLimits = ListenerLimits & BodyLimits;

type ServeResult = { kind: 'reply'; reply: Reply } | TextReply | RawReply | Refused | { kind: 'gone' };

/** Status of a request whose client left before the reply; appears only in logs and metrics. */
const CLIENT_LEFT = 499;
/** Values of the metrics label `method`; any other method is counted as OTHER, so that callers cannot add values. */
const KNOWN_METHODS: ReadonlySet<string> = new Set(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS']);
const NO_QUERY = Object.freeze({});

/** A front door, with the parts of its state that metrics show. */
export interface MeasuredDoor extends Door {
  /** Returns the number of running requests. */
  inFlight(): number;
  bodyBudget: BodyReader['budget'];
}

/** Returns the front door around restify's server. This file handles each request, in order from top to bottom. */
export function openServer(deps: ServerDeps): MeasuredDoor {
  const bodies = openBodyReader(deps.limits, openCountedNetwork(deps.trustedProxies));
  const hostFault = openHostCheck({ loopbackOnly: deps.loopbackOnly === true });
  const running = openRunningRequests();
  const newest = new WeakMap<Duplex, Exchange>();
  const rows = deps.routes.map((route) => mountRoute(route, deps.schemas));
  const listener = openListener(rows, { receive, serve }, deps.limits, (socket) => newest.get(socket));
  const connections = limitConnections(listener, {
    max: deps.limits.maxConnections,
    peerOf: openCountedPeer(deps.trustedProxies),
    dropped: deps.dropped,
  });
  return { ...openDoor(listener, running), inFlight: running.size, bodyBudget: bodies.budget };

  function receive(request: IncomingMessage, response: ServerResponse): Exchange {
    const { headers } = request;
    const leavesTrail = headers['x-request-id'] !== undefined || headers.traceparent !== undefined;
    const isProven = leavesTrail && (deps.isProven?.(headers) ?? true);
    const exchange = newExchange(request, response, isProven);
    newest.set(request.socket, exchange);
    connections.spoke(request.socket);
    running.begin();
    return exchange;
  }

  function serve(exchange: Exchange, match: Match): Promise<void> {
    const { cause, clientRequestId } = exchange;
    const scope = { cause, ...(clientRequestId === undefined ? {} : { clientRequestId }) };
    return isTracing() ? inScope(scope, serveInSpan, exchange, match) : inScope(scope, answer, exchange, match, null);
  }

  function serveInSpan(exchange: Exchange, match: Match): Promise<void> {
    const method = methodOf(exchange.request);
    const attributes = { 'http.request.method': method, 'url.scheme': 'http' };
    return inSpan({ kind: 'SERVER', name: method, attributes }, (span) => answer(exchange, match, span));
  }

  async function answer(exchange: Exchange, match: Match, span: SpanNotes | null): Promise<void> {
    try {
      const written = write(exchange, await live(exchange, match));
      if (written !== undefined) await written;
    } catch (error) {
      fail(exchange, error);
    } finally {
      bodies.release(exchange);
      running.end(exchange);
      record(exchange, span);
    }
  }

  async function live(exchange: Exchange, match: Match): Promise<ServeResult> {
    const { request, path, query } = exchange;
    const repeated = repeatedHeaders(request);
    const misdirected = hostFault(request, repeated);
    if (misdirected !== undefined) return refused(misdirected);
    if (match.kind === 'no-route') return refused({ rejected: 'ROUTE_NOT_FOUND' });
    if (match.kind === 'wrong-method') {
      return refused({ rejected: 'METHOD_NOT_ALLOWED', headers: { Allow: match.allow } });
    }
    const { mounted, params } = match;
    exchange.template = mounted.route.path;
    exchange.params = params;

    const head = readHead(request, request.method ?? '', path, params, repeated);
    for (const guard of mounted.route.guards) {
      const rejection = guard.check(head, exchange.identity);
      if (rejection !== undefined) return refused(withoutGuesses(exchange, head, mounted.route, rejection));
    }

    const reading = readBody(exchange, head, mounted);
    const parsing = inPieces(parsedBody(reading instanceof Promise ? await reading : reading, mounted));
    const body = parsing instanceof Promise ? await parsing : parsing;
    if (body.kind === 'gone') return body;
    const bearerFault = exchange.identity.bearerFault?.(body.kind === 'body' ? body.value : undefined);
    if (body.kind === 'refused') return bearerFault === undefined ? body : refused(bearerFault);

    const asked = query === '' && !mounted.hasQuery ? undefined : mounted.parseQuery(query);
    const faults = asked === undefined ? body.faults : [...asked.faults, ...body.faults];
    if (faults.length > 0) {
      if (bearerFault !== undefined) return refused(bearerFault);
      const details = [...faults, ...(await furtherFaults(mounted, body))];
      return refused({ rejected: 'VALIDATION_FAILED', details: details.slice(0, MAX_FAULTS) });
    }

    const { value, dropped } = body;
    const input = { body: value, dropped, query: asked === undefined ? NO_QUERY : asked.query };
    const answer = await mounted.route.handle(new RouteCall(exchange, head, input, running));
    if (isRejection(answer)) return refused(answer);
    return answer.kind === undefined ? { kind: 'reply', reply: withIgnored(answer, dropped) } : answer;
  }

  /** Counts the wrong token of a refused request, if it has one. Beyond the limit of its network, the caller gets 429 instead. */
  function withoutGuesses(exchange: Exchange, head: Head, { guards }: Route, rejection: Rejection): Rejection {
    const kind = deps.wrongTokens === undefined ? undefined : guessIn(guards, head, rejection);
    if (kind === undefined) return rejection;
    const peer = exchange.request.socket.remoteAddress ?? '';
    const retryAfter = deps.wrongTokens?.count({ peer, headers: head.headers }, kind) ?? null;
    if (retryAfter === null) return rejection;
    const message = 'Too many wrong tokens from this address; a right one is accepted at any time';
    return { rejected: 'RATE_LIMITED', message, retryAfter };
  }

  /** Checks media type, encoding and size of the body, and reads it. A route without a body schema leaves it unread. */
  function readBody(exchange: Exchange, head: Head, { route, body }: MountedRoute) {
    if (isForm(head) && body?.isForm !== true && route.takesAnyForm !== true)
      return refused({ rejected: 'UNSUPPORTED_MEDIA_TYPE' });
    return body === undefined ? UNREAD : bodies.read(exchange, head, body);
  }

  /** Writes a reply. Returns a promise only for a long one, and for one that its handler writes itself. */
  function write(exchange: Exchange, outcome: ServeResult): Promise<void> | undefined {
    const closing = deps.draining.aborted;
    switch (outcome.kind) {
      case 'reply':
        return writeReply(exchange, outcome.reply, closing);
      case 'text':
        writeText(exchange, outcome, closing);
        return undefined;
      case 'refused':
        writeRefusal(exchange, outcome.rejection, closing);
        return undefined;
      case 'raw':
        exchange.response.setHeader('X-Request-Id', exchange.repliedId).setHeader(...NO_SNIFFING);
        if (closing) exchange.response.setHeader('Connection', 'close');
        return outcome.raw(exchange.response);
      case 'gone':
        return undefined;
      default:
        return outcome satisfies never;
    }
  }

  /** Handles an error that a handler or a bug threw. The caller gets 503 or 500; only the log gets the error itself. */
  function fail(exchange: Exchange, error: unknown): void {
    const { response, requestId, template } = exchange;
    const about = { err: error, requestId, route: template };
    if (isGone(exchange)) {
      deps.log.debug(about, 'request failed after its client disconnected');
      return;
    }
    // If the signal is aborted although the client is connected, the process is stopping: another process may answer a retry.
    const isCut = exchange.abort?.signal.aborted === true || exchange.stop?.signal.aborted === true;
    const refusal: Refusal = { rejected: isCut || deps.isOutage(error) ? 'UNAVAILABLE' : 'INTERNAL' };
    if (isCut) deps.log.warn(about, 'request aborted by shutdown');
    else if (refusal.rejected === 'UNAVAILABLE')
      deps.log.warn(about, 'request failed: MongoDB unavailable or server busy');
    else deps.log.error(about, 'request failed');
    // Cut the connection, so that a stream that broke off cannot pass as complete.
    if (response.headersSent) response.destroy();
    else writeRefusal(exchange, refusal, deps.draining.aborted);
  }

  function record(exchange: Exchange, span: SpanNotes | null): void {
    const { request, response, requestId, clientRequestId, template, params, identity } = exchange;
    const ms = (exchange.answeredAt ?? performance.now()) - exchange.startedAt;
    const status = response.headersSent ? response.statusCode : CLIENT_LEFT;
    const method = methodOf(request);
    deps.observe(method, template, status, ms / 1_000);
    span?.rename(`${method} ${template}`);
    span?.set({ 'http.route': template, 'examhall.request_id': requestId });
    if (clientRequestId !== undefined) span?.set({ 'examhall.client_request_id': clientRequestId });
    noteStatus(span, status, 500);
    deps.access({
      attemptId: params.attemptId,
      commandId: currentScope()?.awaited,
      method,
      route: template,
      status,
      ms,
      actor: identity.actor && deps.actorHash?.(identity.actor.id),
      ...staffOf(exchange),
    });
  }
}

function methodOf({ method = '' }: IncomingMessage): string {
  return KNOWN_METHODS.has(method) ? method : 'OTHER';
}

/** Roles whose calls concern the objects of other people, so that the log names these objects. */
const STAFF: ReadonlySet<string> = new Set(['ADMIN', 'TEACHER']);

/** Returns the role and the ids of the path for the access line; both are undefined for a student, a parent or a service. */
function staffOf({ identity, params }: Exchange): Pick<AccessLine, 'role' | 'objectIds'> {
  const role = identity.actor?.role ?? '';
  if (!STAFF.has(role)) return { role: undefined, objectIds: undefined };
  return { role, objectIds: Object.keys(params).length > 0 ? params : undefined };
}
