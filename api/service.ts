import type { Config } from '#infra/config/config.ts';
import type { Log } from '#infra/log/log.ts';
import type { Metrics } from '#infra/metrics/metrics.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { ChangeFeed } from '#infra/redis/change-feed.ts';
import type { Doorbells } from '#infra/redis/doorbell.ts';
import type { ReplyWaiters } from '#infra/redis/replies.ts';
import type { Schemas } from '#infra/schema/validator.ts';
import type { Now } from '#shared/kernel/time.ts';
import type { Streams } from './http/live-stream.ts';
import type { Route } from './route.ts';

/** Builds a service's dependencies and returns its routes. Each service has one Mount, in its `mount.ts`. */
export type Mount = (context: DoorContext) => Route[];

/** Dependencies that a front door process shares among its services. */
export interface DoorContext {
  config: Config;
  log: Log;
  metrics: Metrics;
  mongo: Mongo;
  /** Schemas of the process, read once at its start. */
  schemas: Schemas;
  /** Returns MongoDB's time (ms since the epoch). */
  now: Now;
  redis: { redisUrl: string; log: Log };
  doorbells: Doorbells;
  replies: ReplyWaiters;
  /** Live streams of all services; an actor's streams are counted across services. */
  streams: Streams;
  /** Publishes the ids of accounts whose live streams must end. */
  accountEnds: Pick<ChangeFeed, 'notify'>;
  /** Registers `close`, which is called at shutdown once no request is running any more. */
  atEnd(close: () => Promise<unknown>): void;
}

/** Returns a function that is true once `found` has resolved to true, which means that the database is usable. */
export function usableOnce(found: Promise<boolean>): () => boolean {
  let isUsable = false;
  void found.then((usable) => {
    isUsable = usable;
  });
  return () => isUsable;
}

/** Returns routes that answer 503 until the database is usable: without its unique indexes no guarantee would hold. */
export function onlyWhenUsable(routes: readonly Route[], usable: () => boolean): Route[] {
  return routes.map((route) => ({
    ...route,
    handle: async (call) => (usable() ? route.handle(call) : { rejected: 'UNAVAILABLE', retryAfter: 1 }),
  }));
}
