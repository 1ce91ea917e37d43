import { createParser } from 'eventsource-parser';

/** One message of a stream. */
export interface EventMessage {
  readonly event?: string | undefined;
  readonly data: string;
  readonly id?: string | undefined;
}

interface ReadOptions {
  /** Time without a byte after which the connection is aborted (ms). */
  readonly silenceMs: number;
  /** Receives the pause that the server requires before the next connection (ms). */
  setRetry(ms: number): void;
}

/**
 * Yields the messages of a reply until it ends, breaks or is silent for too long: then the caller connects again. A message that was cut off
 * is not yielded.
 */
export async function* readEvents(
  response: Response,
  connection: AbortController,
  { silenceMs, setRetry }: ReadOptions,
): AsyncGenerator<EventMessage, void> {
  if (response.body === null) return;
  const messages: EventMessage[] = [];
  const parser = createParser({ onEvent: (message) => messages.push(message), onRetry: setRetry });
  const decoder = new TextDecoder();
  const reader = response.body.getReader();
  for (;;) {
    const silent = setTimeout(() => connection.abort(new Error('the stream is silent')), silenceMs);
    // A broken connection is like one that ends: the next one resumes after the last id.
    const chunk = await reader.read().catch(() => ({ done: true, value: undefined }));
    clearTimeout(silent);
    if (chunk.value === undefined) return;
    parser.feed(decoder.decode(chunk.value, { stream: true }));
    yield* messages.splice(0);
  }
}
