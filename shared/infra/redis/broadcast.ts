import type { Redis } from 'ioredis';
import { keepIoredis, openIoredis } from './connection.ts';
import { keepConnected, type Link, type Log, within } from './link.ts';
import { readRedisUrl } from './redis-url.ts';

const PUBLISH_PATIENCE_MS = 1_000;
/** Messages on their way to a Redis that hangs; more are dropped, whoever waits for them polls. */
const MOST_IN_FLIGHT = 1_000;

/** Says short texts on one channel to whoever listens just then. Pub/Sub ignores database numbers. */
export interface Broadcaster {
  /** Returns at once, never throws; dropped while Redis is away. */
  say(text: string): void;
  /** Lets the last texts leave, for half a second at most. */
  close(): Promise<void>;
}

export function openBroadcaster(deps: { redisUrl: string; log: Log; purpose: string; channel: string }): Broadcaster {
  const link = keepIoredis(deps);
  const inFlight = new Set<Promise<void>>();

  async function publish(client: Redis, text: string): Promise<void> {
    try {
      await within(PUBLISH_PATIENCE_MS, client.publish(deps.channel, text));
    } catch (error) {
      link.drop(client, error);
    }
  }

  return {
    say(text) {
      const client = link.current();
      if (client === null || inFlight.size >= MOST_IN_FLIGHT) return;
      const sent = publish(client, text).finally(() => inFlight.delete(sent));
      inFlight.add(sent);
    },
    close: () => link.close(() => within(PUBLISH_PATIENCE_MS / 2, Promise.all(inFlight))),
  };
}

/** Hears every text on one channel, while Redis is there (`current()` of the link is not null). */
export function hearBroadcasts(deps: {
  redisUrl: string;
  log: Log;
  purpose: string;
  channel: string;
  hear(text: string): void;
}): Link<Redis> {
  const address = readRedisUrl(deps.redisUrl);
  return keepConnected<Redis>({
    log: deps.log,
    purpose: deps.purpose,
    label: address.label,
    open(lost) {
      const session = openIoredis(address, lost);
      session.client.on('message', (_channel: string, text: string) => deps.hear(text));
      return { ...session, ready: session.ready.then(() => session.client.subscribe(deps.channel)) };
    },
  });
}
