import { setTimeout as delay } from 'node:timers/promises';
import type { Caller, Gateway } from './gateway.ts';

/** A stream of server-sent events that is listened to, as a browser's EventSource does it: cut off, it comes back with the last id. */
export interface EventSource {
  /** Why the stream was cut off, or has not opened. */
  trouble(): string;
  close(): Promise<void>;
}

const REST_MS = 500;

/** `hear` is given each event with its data, which must be JSON. A 204 ends it for good. */
export function openEventSource(
  gateway: Pick<Gateway, 'url' | 'identityOf'>,
  { owner, path }: { owner: Caller; path: string },
  hear: (event: string, data: unknown) => void,
): EventSource {
  const ending = new AbortController();
  const { signal } = ending;
  let lastEventId: string | undefined;
  let trouble = 'no answer';

  function read(block: string): void {
    const fields = new Map(block.split('\n').map((line) => line.split(/: ?(.*)/s, 2) as [string, string]));
    lastEventId = fields.get('id') ?? lastEventId;
    const event = fields.get('event');
    if (event !== undefined) hear(event, JSON.parse(fields.get('data') ?? 'null'));
  }

  async function listen(): Promise<void> {
    const resume = lastEventId === undefined ? {} : { 'last-event-id': lastEventId };
    const reply = await fetch(new URL(path, gateway.url), {
      headers: { ...gateway.identityOf(owner), ...resume },
      signal,
    });
    if (reply.status === 204) return ending.abort();
    if (!reply.ok || reply.body === null) throw new Error(`status ${reply.status}`);
    let text = '';
    for await (const chunk of reply.body.pipeThrough(new TextDecoderStream())) {
      const blocks = (text + chunk).split('\n\n');
      text = blocks.pop() ?? '';
      blocks.forEach(read);
    }
  }

  async function listenOn(): Promise<void> {
    while (!signal.aborted) {
      await listen().catch((error: unknown) => {
        trouble = error instanceof Error ? error.message : String(error);
      });
      await delay(REST_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  const listening = listenOn();
  return {
    trouble: () => trouble,
    async close() {
      ending.abort();
      await listening;
    },
  };
}
