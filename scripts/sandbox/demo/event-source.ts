import { setTimeout as delay } from 'node:timers/promises';
import { openEventStream } from '#scripts/http/event-stream.ts';
import type { Caller, Gateway } from '#scripts/sandbox/gateway.ts';

/** A stream of server-sent events. Like a browser's EventSource, it reconnects with the last event id when it is cut. */
export interface EventSource {
  /** Returns why the stream was last cut, or why it has not opened. */
  trouble(): string;
  close(): Promise<void>;
}

const RECONNECT_MS = 500;

/** Opens the stream and calls `receive` with each event and its data, which must be JSON. A 204 ends the stream without a reconnect. */
export function openEventSource(
  gateway: Pick<Gateway, 'url' | 'identityOf'>,
  { owner, path }: { owner: Caller; path: string },
  receive: (event: string, data: unknown) => void,
): EventSource {
  const ending = new AbortController();
  const { signal } = ending;
  let lastEventId = '';
  let trouble = 'no answer';

  async function listen(): Promise<void> {
    const resume = lastEventId === '' ? {} : { 'last-event-id': lastEventId };
    const headers = { ...gateway.identityOf(owner), ...resume };
    const { response, ended } = await openEventStream(new URL(path, gateway.url), { headers, signal }, (received) => {
      lastEventId = received.lastEventId || lastEventId;
      receive(received.event, received.data);
    });
    if (response.statusCode === 204) ending.abort();
    else if (response.statusCode !== 200) response.destroy(new Error(`status ${response.statusCode}`));
    await ended;
  }

  async function listenOn(): Promise<void> {
    while (!signal.aborted) {
      await listen().catch((error: unknown) => {
        trouble = error instanceof Error ? error.message : String(error);
      });
      await delay(RECONNECT_MS, undefined, { signal }).catch(() => undefined);
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
