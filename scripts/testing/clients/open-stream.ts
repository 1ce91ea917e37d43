import { openEventStream, type ServerEvent } from '#scripts/http/event-stream.ts';
import { until } from '#testing/until.ts';

export interface ReceivedEvent extends ServerEvent {
  data: Record<string, unknown>;
}

export interface ReceivedStream {
  status: number;
  headers: NodeJS.Dict<string | string[]>;
  events: ReceivedEvent[];
  /** Returns the raw text received so far. */
  text: () => string;
  ended: () => boolean;
  /** Waits for an event of this kind that no earlier call returned, and returns it. */
  next(kind: string): Promise<ReceivedEvent>;
  /** Stops reading, so that the server's output fills the buffers. */
  pause(): void;
  close(): void;
}

/** Opens a stream and records its events until it is closed or the test ends. */
export async function openStream(
  t: { teardown(work: () => unknown): void },
  url: string,
  headers: Record<string, string>,
): Promise<ReceivedStream> {
  const events: ReceivedEvent[] = [];
  const taken = new Set<ReceivedEvent>();
  const ending = new AbortController();
  let text = '';
  let isOver = false;
  t.teardown(() => ending.abort());
  const { signal } = ending;
  const stream = await openEventStream(new URL(url), { headers, signal }, (event) =>
    events.push(event as ReceivedEvent),
  );
  const { response } = stream;
  response.on('data', (chunk: string) => {
    text += chunk;
  });
  response.on('close', () => {
    isOver = true;
  });
  stream.ended.catch((error: unknown) => {
    // A cut stream counts as ended. Data that is not JSON fails the test.
    if (error instanceof SyntaxError) throw error;
  });

  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    events,
    text: () => text,
    ended: () => isOver,
    next: (kind) =>
      until(`an event ${kind}`, async () => {
        const found = events.find((one) => one.event === kind && !taken.has(one));
        if (found !== undefined) taken.add(found);
        return found ?? false;
      }),
    pause: () => void response.pause(),
    close: () => ending.abort(),
  };
}
