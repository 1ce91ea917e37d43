import type { Reply } from '#api/route.ts';
import { ERRORS, type Rejection } from '#shared/kernel/errors.ts';
import { type Exchange, isGone } from './exchange.ts';
import { bodyLeft, linger } from './linger.ts';

const TYPE = 'application/json; charset=utf-8';
/** Seconds; what a caller of a service that is down is told when nobody knows better. */
const DEFAULT_RETRY_AFTER = 1;

/** A rejection with the headers that go with its status: Allow. */
export interface Refusal extends Rejection {
  headers?: Record<string, string>;
}

export function writeReply(exchange: Exchange, reply: Reply, closing: boolean): void {
  const text = JSON.stringify({ success: true, data: reply.data ?? null, message: reply.message ?? 'OK' });
  send(exchange, reply.status, text, reply.headers, closing);
}

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
