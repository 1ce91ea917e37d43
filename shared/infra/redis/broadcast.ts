import type { Redis } from 'ioredis';
import { askOnce, keepIoredis, openIoredis } from './connection.ts';
import { keepConnected, type Link, type LinkLog, withReplyTimeout } from './link.ts';
import { readRedisUrl } from './redis-url.ts';

/** Time limit of one PUBLISH; the link is dropped afterwards. */
const PUBLISH_TIMEOUT_MS = 1_000;
/** Maximum number of messages without a reply of Redis. Further ones are dropped, because their receivers poll as well. */
const MAX_IN_FLIGHT = 1_000;

/** Publishes short texts on one channel to the current subscribers. Pub/Sub ignores database numbers. */
export interface Broadcaster {
  /** Publishes a text, or drops it while Redis is unreachable. Returns at once and never throws. */
  publish(text: string): void;
  /** Waits up to half a second until the last texts are sent. */
  close(): Promise<void>;
}

/** Opens the publishing end of one channel. */
export function openBroadcaster(deps: {
  redisUrl: string;
  log: LinkLog;
  purpose: string;
  channel: string;
}): Broadcaster {
  const link = keepIoredis(deps);
  const inFlight = new Set<Promise<void>>();

  async function send(client: Redis, text: string): Promise<void> {
    try {
      await withReplyTimeout(PUBLISH_TIMEOUT_MS, client.publish(deps.channel, text));
    } catch (error) {
      link.drop(client, error);
    }
  }

  return {
    publish(text) {
      const client = link.current();
      if (client === null || inFlight.size >= MAX_IN_FLIGHT) return;
      const sent = send(client, text).finally(() => inFlight.delete(sent));
      inFlight.add(sent);
    },
    close: () => link.close(() => withReplyTimeout(PUBLISH_TIMEOUT_MS / 2, Promise.all(inFlight))),
  };
}

/** Dials Redis, publishes one text and closes. Returns false if Redis did not confirm it in time. Never throws. */
export async function publishOnce(wanted: { redisUrl: string; channel: string; text: string }): Promise<boolean> {
  const confirmed = await askOnce(wanted.redisUrl, (client) => client.publish(wanted.channel, wanted.text));
  return confirmed !== null;
}

/** Subscribes to one channel and calls `receive` for every text. Texts are lost while `current()` of the returned link is null. */
export function subscribeToBroadcasts(deps: {
  redisUrl: string;
  log: LinkLog;
  purpose: string;
  channel: string;
  receive(text: string): void;
}): Link<Redis> {
  const address = readRedisUrl(deps.redisUrl);
  return keepConnected<Redis>({
    log: deps.log,
    purpose: deps.purpose,
    label: address.label,
    open(lost) {
      const session = openIoredis(address, lost);
      session.client.on('message', (_channel: string, text: string) => deps.receive(text));
      return { ...session, ready: session.ready.then(() => session.client.subscribe(deps.channel)) };
    },
  });
}
