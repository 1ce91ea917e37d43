import type { Duplex } from 'node:stream';
import { ERRORS, type Rejection } from '#shared/kernel/errors.ts';
import type { Exchange } from './exchange.ts';
import { requestIdOf } from './request-id.ts';
import { failureText } from './write-reply.ts';

/**
 * Answers a connection whose bytes Node's parser refused, or whose head did not come in time, in the envelope.
 * `newest` is the last request that came over the connection. A request that is waiting for its body gets the fault as its own; a connection in the middle of a reply only
 * loses what comes after it, because a second reply written into the first would be read as part of it.
 */
export function answerClientError(
  error: Error & { code?: string },
  socket: Duplex,
  newest: Exchange | undefined,
): void {
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

/** For sockets without a ServerResponse. The connection ends with it. */
export function writeRaw(socket: Duplex, rejection: Rejection): void {
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

/** Faults below HTTP have no code of their own; to a gateway they are a request that does not fit. */
function rejectionOf(code: string): Rejection {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return { rejected: 'REQUEST_TIMEOUT' };
  if (code === 'HPE_HEADER_OVERFLOW')
    return { rejected: 'VALIDATION_FAILED', message: 'The request head is too large' };
  return { rejected: 'VALIDATION_FAILED', message: 'The request is not valid HTTP/1.1' };
}
