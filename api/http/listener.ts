import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import restify from 'restify';
import { ERRORS, type Rejection } from '#shared/kernel/errors.ts';
import { type Exchange, requestIdOf } from './exchange.ts';
import { failureText } from './reply.ts';

export interface ListenerLimits {
  /** Milliseconds for the head of a request, from the first byte of the connection or of the request. */
  headTimeoutMs: number;
  /** Milliseconds for the body, from the end of the head. */
  bodyTimeoutMs: number;
}

/** Answers one request, whatever happens; never rejects. */
type Serve = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

/** Longer than the minute for which common gateways keep an idle connection, so that they close first. */
const KEEP_ALIVE_MS = 65_000;
/** Node's own default of 30 s would triple the time that a head may take. */
const TIMEOUT_CHECK_MS = 500;

/** `first` is missing in the published types: it sees a request before restify does; false ends restify's part in it. */
interface RestifyServer extends restify.Server {
  first(handler: (request: IncomingMessage, response: ServerResponse) => boolean): void;
}

/**
 * A restify server around `serve`, not yet listening. Of restify we use the server and its `first` hook, through which
 * every request goes to `serve`: its router ends the process on `GET //` and folds dot segments away, its parsers and
 * formatters let through what the contract forbids, and its handler chain costs as much time as all else together.
 */
export function openListener(
  serve: Serve,
  limits: ListenerLimits,
  newestOn: (socket: Duplex) => Exchange | undefined,
): Server {
  const outer = restify.createServer({ name: '', log: silentLog() });
  (outer as RestifyServer).first((request, response) => {
    void serve(request, response);
    return false;
  });
  const server = outer.server as Server;
  server.headersTimeout = limits.headTimeoutMs;
  // Backstop for bodies that no route reads; a body that is read has its own, shorter timer.
  server.requestTimeout = limits.headTimeoutMs + limits.bodyTimeoutMs;
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  // Not in the types, but read from the server when it begins to listen.
  // Without a Host header Node would answer by itself, with nothing in it that a caller could read.
  Object.assign(server, { connectionsCheckingInterval: TIMEOUT_CHECK_MS, requireHostHeader: false });

  // restify takes upgrades from Node and drops them, which leaves their sockets open for ever: they are plain requests.
  server.removeAllListeners('upgrade');
  // Whoever listens on the server itself must not be joined by an `error` event of restify that nobody handles.
  outer.on('error', () => undefined);
  // 100 Continue is sent by the body's reader, once the head has passed: a refused upload is then never sent.
  outer.on('checkContinue', (request, response) => server.emit('request', request, response));
  server.on('checkExpectation', (request, response) => server.emit('request', request, response));
  server.on('connect', (_request, socket) => writeRaw(socket, { rejected: 'ROUTE_NOT_FOUND' }));
  server.on('clientError', (error, socket) => answerClientError(error, socket, newestOn(socket)));
  return server;
}

/** restify has nothing to say that the front door does not log itself. */
function silentLog(): never {
  const silent = (): void => undefined;
  const log = {
    trace: silent,
    debug: silent,
    info: silent,
    warn: silent,
    error: silent,
    fatal: silent,
    child: () => log,
  };
  return log as never;
}

/**
 * Answers a connection whose bytes Node's parser refused, or whose head did not come in time, in the envelope.
 * `newest` is the last request that came over the connection. A request that is waiting for its body gets the fault as its own; a
 * connection in the middle of a reply only loses what comes after it, because a second reply written into the first would be read as
 * part of it.
 */
function answerClientError(error: Error & { code?: string }, socket: Duplex, newest: Exchange | undefined): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const rejection = rejectionOf(error.code ?? '');
  if (newest?.interrupt !== undefined) newest.interrupt(rejection);
  else if (newest !== undefined && !newest.response.writableFinished)
    newest.response.once('close', () => socket.destroy());
  // The rest of a body whose request was answered early: there is nothing left to answer.
  else if (newest !== undefined && !newest.request.complete) socket.destroy();
  else writeRaw(socket, rejection);
}

/** Faults below HTTP have no code of their own; to a gateway they are a request that does not fit. */
function rejectionOf(code: string): Rejection {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return { rejected: 'REQUEST_TIMEOUT' };
  if (code === 'HPE_HEADER_OVERFLOW')
    return { rejected: 'VALIDATION_FAILED', message: 'The request head is too large' };
  return { rejected: 'VALIDATION_FAILED', message: 'The request is not valid HTTP/1.1' };
}

/** For sockets without a ServerResponse. The connection ends with it. */
function writeRaw(socket: Duplex, rejection: Rejection): void {
  const requestId = requestIdOf(undefined);
  const text = failureText(rejection, requestId);
  const { status } = ERRORS[rejection.rejected];
  socket.end(
    `HTTP/1.1 ${status} ${rejection.rejected}\r\nContent-Type: application/json; charset=utf-8\r\n` +
      `Content-Length: ${Buffer.byteLength(text)}\r\nX-Request-Id: ${requestId}\r\nCache-Control: no-store\r\n` +
      `Connection: close\r\n\r\n${text}`,
    () => socket.destroy(),
  );
}
