import type { IncomingMessage, ServerResponse } from 'node:http';

/** Up to this many announced bytes are cheaper to swallow than a new connection is to open. */
const SWALLOWED_BYTES = 64 * 1_024;
const LINGER_BYTES = 1_024 * 1_024;
const LINGER_MS = 1_000;

/**
 * How much of the body is still to come when a reply is ready: `none`, `little` (the connection stays open, Node
 * discards the rest) or `much` (the connection must be closed after the reply).
 */
export function bodyLeft(request: IncomingMessage): 'none' | 'little' | 'much' {
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
export function linger(request: IncomingMessage, response: ServerResponse): void {
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
