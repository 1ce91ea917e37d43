import { request } from 'node:http';
import { until } from '#testing/until.ts';

/** A server-sent event as a browser's EventSource would hand it over. */
export interface HeardEvent {
  event: string;
  data: Record<string, unknown>;
  /** The last id that came, with this event or before. */
  lastEventId: string;
}

export interface HeardStream {
  status: number;
  headers: NodeJS.Dict<string | string[]>;
  events: HeardEvent[];
  /** What came, as it came. */
  text: () => string;
  ended: () => boolean;
  /** Resolves with the next event of this kind that has not been taken yet. */
  next(kind: string): Promise<HeardEvent>;
  /** Stops reading: what the server sends then piles up. */
  pause(): void;
  close(): void;
}

/** Opens a stream and listens until it is closed or the test ends. */
export async function openStream(
  t: { teardown(work: () => unknown): void },
  url: string,
  headers: Record<string, string>,
): Promise<HeardStream> {
  const events: HeardEvent[] = [];
  const taken = new Set<HeardEvent>();
  let text = '';
  let whole = 0;
  let lastEventId = '';
  let ended = false;
  const reply = Promise.withResolvers<import('node:http').IncomingMessage>();
  const sent = request(url, { headers, agent: false }, reply.resolve).on('error', reply.reject).end();
  t.teardown(() => sent.destroy());
  const response = await reply.promise;
  response.setEncoding('utf8');
  response.on('data', (chunk: string) => {
    text += chunk;
    for (let end = text.indexOf('\n\n', whole); end >= 0; end = text.indexOf('\n\n', whole)) {
      hear(text.slice(whole, end));
      whole = end + 2;
    }
  });
  response.on('close', () => {
    ended = true;
  });
  response.on('error', () => undefined);

  function hear(block: string): void {
    const fields = new Map(block.split('\n').map((line) => line.split(/: ?(.*)/s, 2) as [string, string]));
    lastEventId = fields.get('id') ?? lastEventId;
    const data = fields.get('data');
    if (data === undefined) return;
    events.push({ event: fields.get('event') ?? 'message', data: JSON.parse(data), lastEventId });
  }

  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    events,
    text: () => text,
    ended: () => ended,
    next: (kind) =>
      until(`an event ${kind}`, async () => {
        const found = events.find((one) => one.event === kind && !taken.has(one));
        if (found !== undefined) taken.add(found);
        return found ?? false;
      }),
    pause: () => void response.pause(),
    close: () => void sent.destroy(),
  };
}
