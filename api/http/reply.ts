import { hash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { RawReply, Reply, TextReply } from '#api/route.ts';
import { inPieces } from '#infra/process/in-pieces.ts';
import { ERRORS, type Rejection } from '#shared/kernel/errors.ts';
import { jsonText } from '#shared/kernel/json.ts';
import { type Exchange, isGone } from './exchange.ts';

/** Writes a success in its envelope. `closing`: the connection ends after the reply. Returns a promise only for a long reply. */
export function writeReply(exchange: Exchange, reply: Reply, closing: boolean): Promise<void> | undefined {
  const { status, data, message = 'OK', headers } = reply;
  const write = (text = '') => send(exchange, status, [text], headers, closing);
  const text = inPieces(jsonText({ success: true, data: data ?? null, message }));
  if (text instanceof Promise) return text.then(write);
  write(text);
  return undefined;
}

/** Writes a success whose data is JSON text already in the same envelope. */
export function writeText(exchange: Exchange, { status, data, headers }: TextReply, closing: boolean): void {
  send(exchange, status, ['{"success":true,"data":', ...data, ',"message":"OK"}'], headers, closing);
}

/** A rejection with the headers of its status, such as `Allow`. */
export interface Refusal extends Rejection {
  headers?: Record<string, string>;
}

/** Outcome of a request that is refused before or by its handler. */
export interface Refused {
  kind: 'refused';
  rejection: Refusal;
}

/** Wraps a refusal, so that it differs from a value that was read. */
export function refused(rejection: Refusal): Refused {
  return { kind: 'refused', rejection };
}

/** `Retry-After` (s) of a rejection that names no delay, if every reply of its code carries the header. */
const DEFAULT_RETRY_AFTER = 1;

/** Writes the reply of a refusal. With `closing`, the connection ends after it. */
export function writeRefusal(exchange: Exchange, refusal: Refusal, closing: boolean): void {
  const { status, retry } = ERRORS[refusal.rejected];
  const retryAfter = refusal.retryAfter ?? (retry === 'after' ? DEFAULT_RETRY_AFTER : undefined);
  const headers = {
    ...refusal.headers,
    ...(retryAfter === undefined ? {} : { 'Retry-After': String(Math.ceil(retryAfter)) }),
    ...(refusal.rejected === 'AUTH_INVALID_TOKEN' ? { 'WWW-Authenticate': 'Bearer' } : {}),
  };
  send(exchange, status, [failureText(refusal, exchange.repliedId)], headers, closing);
}

/** Returns the failure envelope as JSON; absent fields are left out. */
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
/** Header of every reply. Without it, a browser may run a reply as the type that its bytes resemble. */
export const NO_SNIFFING = ['X-Content-Type-Options', 'nosniff'] as const;

/**
 * Writes head and body at once. A reply that precedes the end of a large request body closes its connection. Otherwise the
 * rest of the body would be parsed as the next request, or its arrival would reset the connection and lose the reply.
 */
function send(
  exchange: Exchange,
  status: number,
  text: TextReply['data'],
  extra: Record<string, string> | undefined,
  closing: boolean,
): void {
  const { request, response } = exchange;
  if (isGone(exchange)) return;
  const left = exchange.broken ? 'none' : unreadBody(request);
  const headers = [
    'Content-Type',
    TYPE,
    'Content-Length',
    String(bytesOf(text)),
    'X-Request-Id',
    exchange.repliedId,
    'Cache-Control',
    'no-store',
    NO_SNIFFING[0],
    NO_SNIFFING[1],
  ];
  if (extra !== undefined) for (const name in extra) headers.push(name, extra[name] ?? '');
  if (closing || exchange.broken || left === 'much') headers.push('Connection', 'close');
  response.writeHead(status, headers);
  exchange.answeredAt = performance.now();
  const end = text.length - 1;
  // Without the cork, each part would be a packet of its own.
  if (end > 0) response.cork();
  for (let at = 0; at < end; at += 1) response.write(text[at] ?? '');
  const last = text[end] ?? '';
  if (left === 'much') {
    response.write(last);
    if (end > 0) response.uncork();
    linger(request, response);
  } else {
    response.end(last);
  }
}

function bytesOf(parts: TextReply['data']): number {
  let bytes = 0;
  for (const part of parts) bytes += Buffer.byteLength(part);
  return bytes;
}

/** Announced bytes up to which discarding the body is cheaper than opening a new connection. */
const SWALLOWED_BYTES = 64 * 1_024;
const LINGER_BYTES = 1_024 * 1_024;
const LINGER_MS = 1_000;

/**
 * Returns how much of the body is still to come when a reply is ready. `little`: the connection stays open and Node discards
 * the rest. `much`: the connection must be closed after the reply.
 */
function unreadBody(request: IncomingMessage): 'none' | 'little' | 'much' {
  if (request.complete) return 'none';
  if (request.headers['transfer-encoding'] !== undefined) return 'much';
  const length = Number(request.headers['content-length'] ?? 0);
  if (length === 0) return 'none';
  return length <= SWALLOWED_BYTES ? 'little' : 'much';
}

/**
 * Ends a response whose request is still being sent. Closing at once would reset the connection, and the reset would
 * destroy the reply in the client's receive buffer. So the rest is discarded first, up to LINGER_BYTES and LINGER_MS. A client
 * that writes everything before it reads then still gets its reply.
 */
function linger(request: IncomingMessage, response: ServerResponse): void {
  let discarded = 0;
  const timer = setTimeout(finish, LINGER_MS);

  function onData(chunk: Buffer): void {
    discarded += chunk.length;
    // From here on the client can send only what the kernel still buffers, until the timer ends the response.
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

/** Returns a reply with these headers and bytes; null for a reply without a body. */
export function bytesReply(
  status: number,
  headers: Readonly<Record<string, string | string[]>>,
  body: Buffer | null,
): RawReply {
  return {
    kind: 'raw',
    async raw(response: ServerResponse) {
      response.writeHead(status, { ...headers, ...(body === null ? {} : { 'Content-Length': body.length }) });
      response.end(body ?? undefined);
    },
  };
}

/**
 * Returns a handler of a file that changes only with a release. The browser sends the ETag of its copy. `read` is called at the first
 * request, so that a file that no browser fetches takes no memory.
 */
export function fileReply(type: string, read: () => Buffer): (ifNoneMatch: string | undefined) => RawReply {
  let file: { body: Buffer; headers: Readonly<Record<string, string>> } | undefined;
  return (ifNoneMatch) => {
    file ??= withETag(type, read());
    const { body, headers } = file;
    return ifNoneMatch === headers.ETag ? bytesReply(304, headers, null) : bytesReply(200, headers, body);
  };
}

function withETag(type: string, body: Buffer) {
  const ETag = `"${hash('sha256', body, 'base64url').slice(0, 22)}"`;
  return { body, headers: { 'Content-Type': type, ETag, 'Cache-Control': 'no-cache' } };
}
