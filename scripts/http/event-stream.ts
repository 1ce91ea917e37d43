import type { IncomingMessage } from 'node:http';
import { createParser } from 'eventsource-parser';
import { type HttpHeaders, openReply } from './call.ts';

/** A server-sent event as a browser's EventSource would deliver it, with parsed data. */
export interface ServerEvent {
  /** Name of the event; `message` if the server names none. */
  event: string;
  data: unknown;
  /** Last id that the stream has sent so far; empty before the first id. */
  lastEventId: string;
}

/** A reply whose events are read on arrival. */
export interface EventStream {
  response: IncomingMessage;
  /** Resolves when the stream has ended. Rejects if it is cut or if the data of an event is not JSON. */
  ended: Promise<void>;
}

/**
 * Opens a stream on a new connection and calls `receive` with each event; `signal` cuts the stream. A reply with another status than 200 is
 * returned too and has no events.
 * @throws NoReply without a head
 */
export async function openEventStream(
  url: URL,
  { headers, signal }: { headers: HttpHeaders; signal: AbortSignal },
  receive: (event: ServerEvent) => void,
): Promise<EventStream> {
  const target = url.pathname + url.search;
  const response = await openReply(url.origin, { method: 'GET', target, headers, signal });
  return { response, ended: readEvents(response, receive) };
}

function readEvents(response: IncomingMessage, receive: (event: ServerEvent) => void): Promise<void> {
  let lastEventId = '';
  const parser = createParser({
    onId(id) {
      lastEventId = id;
    },
    onEvent: ({ event = 'message', data }) => receive({ event, data: JSON.parse(data), lastEventId }),
  });
  response.setEncoding('utf8').on('data', (chunk: string) => {
    try {
      parser.feed(chunk);
    } catch (error) {
      response.destroy(error instanceof Error ? error : new Error(String(error)));
    }
  });
  return new Promise((resolve, reject) => response.on('error', reject).on('close', resolve));
}
