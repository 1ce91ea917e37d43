import { randomUUID } from 'node:crypto';
import type { Server } from 'node:http';
import type { Duplex } from 'node:stream';
import Router from 'restify/lib/router.js';
import RestifyServer from 'restify/lib/server.js';
import { ERRORS, type Rejection } from '#shared/kernel/errors.ts';
import type { Exchange } from './exchange.ts';
import { failureText, NO_SNIFFING } from './reply.ts';
import { type MountedRoute, mountRoutes, type Routing, type Serving } from './route-table.ts';

export interface ListenerLimits {
  /** Time limit (ms) for the head of a request, from the first byte of the connection or of the request. */
  headTimeoutMs: number;
  /** Time limit (ms) for the body, from the end of the head. */
  bodyTimeoutMs: number;
}

/** Idle time after which a connection closes (ms). Common gateways close after a minute, so they close first. */
const KEEP_ALIVE_MS = 65_000;
/** Interval of Node's timeout checks (ms). The default of 30 s would triple the time that a head may take. */
const TIMEOUT_CHECK_MS = 500;

/** Length of an id of 128 characters if each is percent-encoded. The router's default would cut ids off at 100. */
const MAX_PARAMETER = 3 * 128;

/**
 * Returns a restify server with the routes; it does not listen yet. restify accepts connections and routes. Bodies, queries and replies are
 * ours: restify's parsers and formatters accept input that the contract forbids, and a broken gzip ends the process.
 */
export function openListener(
  rows: readonly MountedRoute[],
  serving: Serving,
  limits: ListenerLimits,
  newestOn: (socket: Duplex) => Exchange | undefined,
): Server {
  // The package's own main file also loads its 30 plugins, a sixth of the time that a front door needs to start.
  const options = { name: '', log: silentLog(), maxParamLength: MAX_PARAMETER };
  const outer = new RestifyServer({ ...options, router: new Router(options) }) as Routing;
  mountRoutes(outer, rows, serving);
  const server = outer.server as Server;
  server.headersTimeout = limits.headTimeoutMs;
  // Time limit for bodies that no route reads. A body that is read has its own, shorter limit.
  server.requestTimeout = limits.headTimeoutMs + limits.bodyTimeoutMs;
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  // The types lack these fields; Node reads them when the server begins to listen.
  // With `requireHostHeader`, Node itself would answer a request without Host, and without our envelope.
  Object.assign(server, { connectionsCheckingInterval: TIMEOUT_CHECK_MS, requireHostHeader: false });

  // restify's upgrade handler drops upgrades and leaves their sockets open for ever. Without it they are plain requests.
  server.removeAllListeners('upgrade');
  // Listeners on the server itself handle errors. restify repeats each as its own `error` event, which must not be unhandled.
  outer.on('error', () => undefined);
  // The body reader sends 100 Continue once the head has passed, so a client never sends a refused upload.
  outer.on('checkContinue', (request, response) => server.emit('request', request, response));
  server.on('checkExpectation', (request, response) => server.emit('request', request, response));
  server.on('connect', (_request, socket) => writeRaw(socket, { rejected: 'ROUTE_NOT_FOUND' }));
  server.on('clientError', (error, socket) => answerClientError(error, socket, newestOn(socket)));
  return server;
}

/** Returns a log that discards everything: the front door itself logs every event that restify would. */
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
 * Answers, in the envelope, a connection whose bytes Node's parser refused or whose head did not arrive in time. `newest` is the
 * last request on the connection. If it is waiting for its body, it gets this rejection. If its reply is being written, the
 * connection closes after that reply, because the client would read a second reply as part of the first.
 */
function answerClientError(error: Error & { code?: string }, socket: Duplex, newest: Exchange | undefined): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const rejection = rejectionOf(error.code ?? '');
  if (newest?.interrupt !== undefined) newest.interrupt(rejection);
  else if (newest !== undefined && !newest.response.writableFinished) {
    newest.fault = rejection;
    newest.response.once('close', () => socket.destroy());
  }
  // These bytes are the rest of a body whose request was answered early: there is nothing to answer.
  else if (newest !== undefined && !newest.request.complete) socket.destroy();
  else writeRaw(socket, rejection);
}

/** Maps a parser error to a rejection. Malformed HTTP has no code of its own and counts as an invalid request. */
function rejectionOf(code: string): Rejection {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return { rejected: 'REQUEST_TIMEOUT' };
  if (code === 'HPE_HEADER_OVERFLOW')
    return { rejected: 'VALIDATION_FAILED', message: 'The request head is too large' };
  return { rejected: 'VALIDATION_FAILED', message: 'The request is not valid HTTP/1.1' };
}

/** Writes a rejection to a socket that has no ServerResponse, then closes the connection. */
function writeRaw(socket: Duplex, rejection: Rejection): void {
  const requestId = randomUUID();
  const text = failureText(rejection, requestId);
  const { status } = ERRORS[rejection.rejected];
  socket.end(
    `HTTP/1.1 ${status} ${rejection.rejected}\r\nContent-Type: application/json; charset=utf-8\r\n` +
      `Content-Length: ${Buffer.byteLength(text)}\r\nX-Request-Id: ${requestId}\r\nCache-Control: no-store\r\n` +
      `${NO_SNIFFING.join(': ')}\r\nConnection: close\r\n\r\n${text}`,
    () => socket.destroy(),
  );
}
