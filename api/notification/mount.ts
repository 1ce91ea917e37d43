import { openStreamPlaces } from '#api/http/live-stream.ts';
import type { Route } from '#api/route.ts';
import type { Mount } from '#api/service.ts';
import { openChangeBell } from '#infra/redis/change-bell.ts';
import type { NotificationDeps } from './deps.ts';
import { inboxRoutes } from './inbox-routes.ts';
import { producerRoutes } from './producer-routes.ts';

/** Live streams that the process holds open, and those of one caller: browsers open six per host themselves. */
const STREAMS = 5_000;
const STREAMS_PER_ACTOR = 10;

export const mountNotification: Mount = ({
  config,
  log,
  mongo,
  now,
  redis,
  doorbells,
  background,
  draining,
  atEnd,
}) => {
  const inboxes = openChangeBell({ ...redis, of: 'inboxes' });
  atEnd(inboxes.close);
  const { senderTokens, channels, delivery } = config.notification;
  return notificationRoutes({
    mongo,
    now,
    doorbells,
    background,
    log,
    senderTokens,
    channels,
    deliveryAttempts: delivery.maxAttempts,
    commandAttempts: config.worker.maxAttempts,
    audit: config.neighbours.audit,
    outboundTimeoutMs: config.outboundTimeoutMs,
    wake: inboxes.wake,
    inboxes,
    streams: { places: openStreamPlaces({ perActor: STREAMS_PER_ACTOR, inAll: STREAMS }), draining },
  });
};

/** The notification service's routes: inboxes behind the gateway, intake from producers. */
export function notificationRoutes(deps: NotificationDeps): Route[] {
  return [...inboxRoutes(deps), ...producerRoutes(deps)];
}
