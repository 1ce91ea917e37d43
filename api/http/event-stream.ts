import type { ServerResponse } from 'node:http';
import { jsonText } from '#shared/kernel/json.ts';
import { atOnce } from '#shared/kernel/pieces.ts';

/** One message of a stream: `data` becomes one line of JSON. */
export interface StreamEvent {
  event: string;
  data: unknown;
  /** The client sends it as Last-Event-ID when it reconnects. */
  id?: string;
}

/** A reply of server-sent events that stays open. */
export interface EventStream {
  send(event: StreamEvent): void;
  /**
   * Resolves once the client has read enough to send more, or the reply has ended. A sender of many events awaits it after each
   * event, because unread events count against `maxUnreadBytes`. A client that reads nothing for `timeoutMs` is cut off.
   */
  drained(): Promise<void>;
  /** Ends the reply after the events that were sent. */
  end(): void;
  /** Resolves when the reply has ended, by the server or by the client. */
  ended: Promise<void>;
  isOpen(): boolean;
}

export interface StreamOptions {
  /** Aborted when the process begins to drain. The stream then ends at once, and its client connects to another process. */
  draining: AbortSignal;
  heartbeatMs: number;
  heartbeat(): StreamEvent;
  /** Bytes that a client may leave unread; default 256 KiB. Streams of large events need more. */
  maxUnreadBytes?: number;
  /** Time that `drained` waits for the client (ms); default 30 s. */
  timeoutMs?: number;
}

/** Delay before a client reconnects (ms). */
const RETRY_MS = 3_000;
/** Bytes that a client may leave unread. A slower client is cut off and reconnects when it can. */
const MAX_UNREAD_BYTES = 256 * 1024;
/** Time that a client has to read while a sender awaits `drained` (ms). */
const TIMEOUT_MS = 30_000;

/** Sends status 200 and the headers and returns the open stream. A later failure can no longer set the status. */
export function openEventStream(response: ServerResponse, options: StreamOptions): EventStream {
  response.writeHead(200, {
    'Content-Type': 'text/event-stream; charset=utf-8',
    'Cache-Control': 'no-store, no-transform',
    // A proxy that buffers a whole reply before it forwards it would hold a stream for ever.
    'X-Accel-Buffering': 'no',
  });
  response.write(`retry: ${RETRY_MS}\n\n`);

  const { maxUnreadBytes = MAX_UNREAD_BYTES, timeoutMs = TIMEOUT_MS } = options;
  const over = Promise.withResolvers<void>();
  const heart = setInterval(() => send(options.heartbeat()), options.heartbeatMs);
  response.once('close', finish);
  options.draining.addEventListener('abort', end, { once: true });
  if (options.draining.aborted) end();
  // If the client left while the stream was being prepared, no 'close' event will come.
  if (!isOpen()) finish();

  function isOpen(): boolean {
    return !response.writableEnded && !response.destroyed;
  }
  function send({ event, data, id }: StreamEvent): void {
    if (!isOpen()) return;
    response.write(`${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${atOnce(jsonText(data))}\n\n`);
    if (response.writableLength > maxUnreadBytes) response.destroy();
  }
  async function drained(): Promise<void> {
    if (!isOpen() || !response.writableNeedDrain) return;
    const drain = Promise.withResolvers<void>();
    const late = setTimeout(() => response.destroy(), timeoutMs);
    response.once('drain', drain.resolve);
    await Promise.race([drain.promise, over.promise]);
    response.off('drain', drain.resolve);
    clearTimeout(late);
  }
  function end(): void {
    if (isOpen()) response.end();
    finish();
  }
  function finish(): void {
    clearInterval(heart);
    options.draining.removeEventListener('abort', end);
    over.resolve();
  }
  return { send, drained, end, ended: over.promise, isOpen };
}
