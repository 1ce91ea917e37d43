import type { ServerResponse } from 'node:http';

/** One message of a stream: `data` becomes one line of JSON. */
export interface StreamEvent {
  event: string;
  data: unknown;
  /** Comes back as Last-Event-ID when the client connects again. */
  id?: string;
}

/** A reply of server-sent events that stays open. */
export interface EventStream {
  send(event: StreamEvent): void;
  /**
   * Resolves once the client has taken what was sent, or the reply has ended. Whoever has much to tell waits for it after each event:
   * what is written at once is all unread. A client that takes nothing for too long is cut off.
   */
  taken(): Promise<void>;
  /** Ends the reply in good order. */
  end(): void;
  /** Resolves when the reply has ended, whoever ended it. */
  ended: Promise<void>;
  isOpen(): boolean;
}

export interface StreamOptions {
  /** Aborted when the process begins to drain: the stream ends first, and its client connects elsewhere. */
  draining: AbortSignal;
  heartbeatMs: number;
  heartbeat(): StreamEvent;
  /** Bytes that a client may leave unread, where one event alone may be as large as what others may; 256 KiB unless given. */
  maxUnreadBytes?: number;
  /** Time to take it, where somebody waits for that (ms); half a minute unless given. */
  patienceMs?: number;
}

/** For a client's next try (ms). */
const RETRY_MS = 3_000;
/** Bytes that a client may leave unread; one that is slower is cut off and comes back when it can. */
const MAX_UNREAD_BYTES = 256 * 1024;
/** Time that a client has to take what somebody waits for it to take (ms). */
const PATIENCE_MS = 30_000;

/** Begins the stream: from here on there is no other status to answer with. */
export function openEventStream(response: ServerResponse, options: StreamOptions): EventStream {
  response.writeHead(200, {
    'Content-Type': 'text/event-stream; charset=utf-8',
    'Cache-Control': 'no-store, no-transform',
    // Proxies that gather a reply before they pass it on would hold it for ever.
    'X-Accel-Buffering': 'no',
  });
  response.write(`retry: ${RETRY_MS}\n\n`);

  const { maxUnreadBytes = MAX_UNREAD_BYTES, patienceMs = PATIENCE_MS } = options;
  const over = Promise.withResolvers<void>();
  const heart = setInterval(() => send(options.heartbeat()), options.heartbeatMs);
  response.once('close', finish);
  options.draining.addEventListener('abort', end, { once: true });
  if (options.draining.aborted) end();
  // The client may have left while the stream was being prepared: then there is no 'close' to come.
  if (!isOpen()) finish();

  function isOpen(): boolean {
    return !response.writableEnded && !response.destroyed;
  }
  function send({ event, data, id }: StreamEvent): void {
    if (!isOpen()) return;
    response.write(`${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
    if (response.writableLength > maxUnreadBytes) response.destroy();
  }
  async function taken(): Promise<void> {
    if (!isOpen() || !response.writableNeedDrain) return;
    const drained = Promise.withResolvers<void>();
    const late = setTimeout(() => response.destroy(), patienceMs);
    response.once('drain', drained.resolve);
    await Promise.race([drained.promise, over.promise]);
    response.off('drain', drained.resolve);
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
  return { send, taken, end, ended: over.promise, isOpen };
}
