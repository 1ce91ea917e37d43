import type { Config } from '#infra/config/config.ts';
import type { Log } from '#infra/log/log.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { Background } from '#infra/process/background.ts';
import type { Doorbells } from '#infra/redis/doorbell.ts';
import type { ReplyWaiters } from '#infra/redis/replies.ts';
import type { Now } from '#shared/kernel/time.ts';
import type { Route } from './route.ts';

/** Builds a service's dependencies and gives its routes; each service has one, in its `mount.ts`. */
export type Mount = (context: DoorContext) => Route[];

/** What a front door process has, whichever services it serves. */
interface DoorContext {
  config: Config;
  log: Log;
  mongo: Mongo;
  /** MongoDB's time. */
  now: Now;
  redis: { redisUrl: string; log: Log };
  doorbells: Doorbells;
  replies: ReplyWaiters;
  /** For what may fail, be late or be lost. */
  background: Background;
  /** Aborted when the process begins to drain. */
  draining: AbortSignal;
  /** To be called at the very end, when nothing is being answered any more. */
  atEnd(close: () => Promise<unknown>): void;
}

/** Returns true from the moment at which `found` resolves to true: the database is usable. */
export function usableOnce(found: Promise<boolean>): () => boolean {
  let isUsable = false;
  void found.then((usable) => {
    isUsable = usable;
  });
  return () => isUsable;
}

/** Until the database is usable, a service's routes answer 503: without the unique indexes no promise would hold. */
export function onlyWhenUsable(routes: readonly Route[], usable: () => boolean): Route[] {
  return routes.map((route) => ({
    ...route,
    handle: async (call) => (usable() ? route.handle(call) : { rejected: 'UNAVAILABLE', retryAfter: 1 }),
  }));
}
