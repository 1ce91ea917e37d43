import { createParser } from 'eventsource-parser';
import { openReply } from '#testing/clients/call.ts';
import { until } from '#testing/until.ts';

/** A server-sent event as a browser's EventSource would deliver it, with parsed data. */
interface ReceivedEvent {
  /** Name of the event; `message` if the server names none. */
  event: string;
  data: Record<string, unknown>;
  /** Last id that the stream has sent so far; empty before the first id. */
  lastEventId: string;
}

/** Opens a stream and records its events until it is closed or the test ends. */
export async function openStream(
  t: { teardown(work: () => unknown): void },
  url: string,
  headers: Record<string, string>,
) {
  const events: ReceivedEvent[] = [];
  const taken = new Set<ReceivedEvent>();
  const ending = new AbortController();
  let text = '';
  const listeners = new Set<(event: ReceivedEvent) => void>();
  let isOver = false;
  t.teardown(() => ending.abort());
  const { origin, pathname, search } = new URL(url);
  const target = pathname + search;
  const response = await openReply(origin, { method: 'GET', target, headers, signal: ending.signal });
  let lastEventId = '';
  const parser = createParser({
    onId(id) {
      lastEventId = id;
    },
    onEvent({ event = 'message', data }) {
      const received = { event, data: JSON.parse(data), lastEventId };
      events.push(received);
      for (const listener of listeners) listener(received);
    },
  });
  // A cut stream counts as ended. Data that is not JSON throws here, and so fails the test.
  response.on('error', () => undefined);
  response.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
    parser.feed(chunk);
  });
  response.on('close', () => {
    isOver = true;
  });

  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    events,
    text: () => text,
    ended: () => isOver,
    /** Calls `listener` for each event from now on, at its arrival. */
    onEvent: (listener: (event: ReceivedEvent) => void) => void listeners.add(listener),
    /** Waits for an event of this kind that no earlier call returned, and returns it. */
    next: (kind: string) =>
      until(`an event ${kind}`, async () => {
        const found = events.find((one) => one.event === kind && !taken.has(one));
        if (found !== undefined) taken.add(found);
        return found ?? false;
      }),
    /** Stops reading, so that the server's output fills the buffers. */
    pause: () => void response.pause(),
    close: () => ending.abort(),
  };
}
