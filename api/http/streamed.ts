import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { RawReply } from '#api/route.ts';

/** Writes a part of a reply and waits until the client has read enough. Returns false if the client has left. */
export async function isWritten(response: ServerResponse, text: string, signal: AbortSignal): Promise<boolean> {
  if (signal.aborted) return false;
  if (!response.write(text)) await once(response, 'drain', { signal });
  return true;
}

/**
 * Streams a list in the envelope of a success, one item after the other, because all of them may be too large for memory. `items` yields
 * their JSON; `name` is the member of `data` that holds the list, and without it `data` is the list. An error after the first byte cuts the
 * connection, so that no client takes a part of the list for the whole.
 */
export function listReply(signal: AbortSignal, items: () => AsyncIterable<string>, name?: string): RawReply {
  const [begin, end] = name === undefined ? ['[', ']'] : [`{${JSON.stringify(name)}:[`, ']}'];
  return {
    kind: 'raw',
    async raw(response) {
      response.writeHead(200, {
        'Content-Type': 'application/json; charset=utf-8',
        'Cache-Control': 'no-store',
      });
      response.write(`{"success":true,"data":${begin}`);
      let separator = '';
      for await (const item of items()) {
        if (!(await isWritten(response, separator + item, signal))) return;
        separator = ',';
      }
      response.end(`${end},"message":"OK"}`);
    },
  };
}
