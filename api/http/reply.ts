import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Reply } from '#api/route.ts';
import { ERRORS, type Rejection } from '#shared/kernel/errors.ts';
import { type Exchange, isGone } from './exchange.ts';

/** Writes a success in its envelope. `closing`: the connection ends with the reply. */
export function writeReply(exchange: Exchange, reply: Reply, closing: boolean): void {
  const text = JSON.stringify({ success: true, data: reply.data ?? null, message: reply.message ?? 'OK' });
  send(exchange, reply.status, text, reply.headers, closing);
}

/** A rejection with the headers that go with its status: Allow. */
export interface Refusal extends Rejection {
  headers?: Record<string, string>;
}

/** How the life of a request ends early. */
export interface Refused {
  kind: 'refused';
  rejection: Refusal;
}

export function refused(rejection: Refusal): Refused {
  return { kind: 'refused', rejection };
}

/** Seconds; what a caller of a service that is down is told when nobody knows better. */
const DEFAULT_RETRY_AFTER = 1;

export function writeRefusal(exchange: Exchange, refusal: Refusal, closing: boolean): void {
  const { status } = ERRORS[refusal.rejected];
  const retryAfter = refusal.retryAfter ?? (refusal.rejected === 'UNAVAILABLE' ? DEFAULT_RETRY_AFTER : undefined);
  const headers = {
    ...refusal.headers,
    ...(retryAfter === undefined ? {} : { 'Retry-After': String(Math.ceil(retryAfter)) }),
    ...(refusal.rejected === 'AUTH_INVALID_TOKEN' ? { 'WWW-Authenticate': 'Bearer' } : {}),
  };
  send(exchange, status, failureText(refusal, exchange.requestId), headers, closing);
}

/** The failure envelope; absent fields are left out. */
export function failureText(rejection: Rejection, requestId: string): string {
  return JSON.stringify({
    success: false,
    code: rejection.rejected,
    message: rejection.message ?? ERRORS[rejection.rejected].message,
    data: rejection.data,
    details: rejection.details,
    requestId,
  });
}

const TYPE = 'application/json; charset=utf-8';

/**
 * Writes head and body in one go. A reply that overtakes its request's body must say so: the rest of the body
 * would be taken for the next request, or its arrival would reset the connection under the reply.
 */
function send(
  exchange: Exchange,
  status: number,
  text: string,
  extra: Record<string, string> | undefined,
  closing: boolean,
): void {
  const { request, response } = exchange;
  if (isGone(exchange)) return;
  const left = exchange.broken ? 'none' : bodyLeft(request);
  const headers = [
    'Content-Type',
    TYPE,
    'Content-Length',
    String(Buffer.byteLength(text)),
    'X-Request-Id',
    exchange.requestId,
    'Cache-Control',
    'no-store',
  ];
  if (extra !== undefined) for (const name in extra) headers.push(name, extra[name] ?? '');
  if (closing || exchange.broken || left === 'much') headers.push('Connection', 'close');
  response.writeHead(status, headers);
  exchange.answeredAt = performance.now();
  if (left === 'much') {
    response.write(text);
    linger(request, response);
  } else {
    response.end(text);
  }
}

/** Up to this many announced bytes are cheaper to swallow than a new connection is to open. */
const SWALLOWED_BYTES = 64 * 1_024;
const LINGER_BYTES = 1_024 * 1_024;
const LINGER_MS = 1_000;

/**
 * How much of the body is still to come when a reply is ready: `none`, `little` (the connection stays open, Node
 * discards the rest) or `much` (the connection must be closed after the reply).
 */
function bodyLeft(request: IncomingMessage): 'none' | 'little' | 'much' {
  if (request.complete) return 'none';
  if (request.headers['transfer-encoding'] !== undefined) return 'much';
  const length = Number(request.headers['content-length'] ?? 0);
  if (length === 0) return 'none';
  return length <= SWALLOWED_BYTES ? 'little' : 'much';
}

/**
 * Ends a response whose request is still being sent. Closing at once would reset the connection, and the reset
 * destroys the reply in the client's receive buffer before it is read. So the rest is discarded for a moment, bounded in
 * bytes and time, and a client that writes everything before it reads still finds its answer.
 */
function linger(request: IncomingMessage, response: ServerResponse): void {
  let discarded = 0;
  const timer = setTimeout(finish, LINGER_MS);

  function onData(chunk: Buffer): void {
    discarded += chunk.length;
    // What the kernel has buffered beyond this point can still be sent by the client while we wait for the timer.
    if (discarded > LINGER_BYTES) request.pause();
  }
  function finish(): void {
    clearTimeout(timer);
    request.off('data', onData).off('end', finish).off('close', finish);
    response.end();
  }
  request.on('data', onData).on('end', finish).on('close', finish);
  request.resume();
}
