import type { IncomingMessage } from 'node:http';
import { createParser } from 'eventsource-parser';
import { type HttpHeaders, openReply } from './call.ts';

/** A server-sent event as a browser's EventSource would hand it over, its data parsed. */
export interface ServerEvent {
  /** `message` where the server names none. */
  event: string;
  data: unknown;
  /** The last id of this stream, sent with this event or before; empty before the first id. */
  lastEventId: string;
}

/** A reply whose events are read as they come. */
export interface EventStream {
  response: IncomingMessage;
  /** Resolves when the stream has ended. Rejects when it is cut, or when the data of an event is not JSON. */
  ended: Promise<void>;
}

/**
 * Opens a stream on a connection of its own and hands each event to `hear`; `signal` cuts it. A reply with another status than 200 is
 * returned as well, and has no events. @throws NoReply when no head comes
 */
export async function openEventStream(
  url: URL,
  { headers, signal }: { headers: HttpHeaders; signal: AbortSignal },
  hear: (event: ServerEvent) => void,
): Promise<EventStream> {
  const target = url.pathname + url.search;
  const response = await openReply(url.origin, { method: 'GET', target, headers, signal });
  return { response, ended: readEvents(response, hear) };
}

function readEvents(response: IncomingMessage, hear: (event: ServerEvent) => void): Promise<void> {
  let lastEventId = '';
  const parser = createParser({
    onId(id) {
      lastEventId = id;
    },
    onEvent: ({ event = 'message', data }) => hear({ event, data: JSON.parse(data), lastEventId }),
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
