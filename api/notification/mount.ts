import type { Route } from '#api/route.ts';
import type { Mount } from '#api/service.ts';
import { openIntakeStore } from '#infra/mongo/notification/intake-store.ts';
import { openChangeFeed } from '#infra/redis/change-feed.ts';
import type { NotificationDeps } from './deps.ts';
import { inboxRoutes } from './inbox-routes.ts';
import { producerRoutes } from './producer-routes.ts';
import { pushRoutes } from './push-subscriptions.ts';
import { unsubscribeRoutes } from './unsubscribe.ts';

export const mountNotification: Mount = ({ config, log, mongo, now, redis, doorbells, streams, atEnd }) => {
  const inboxChanges = openChangeFeed({ ...redis, of: 'inboxes' });
  atEnd(inboxChanges.close);
  const { senderTokens, channels, delivery, webpush, pushHosts, unsubscribe } = config.notification;
  return notificationRoutes({
    mongo,
    intake: openIntakeStore(mongo),
    now,
    doorbells,
    log,
    senderTokens,
    channels,
    unsubscribeKey: unsubscribe?.key ?? null,
    pushKey: webpush?.keys.publicKey ?? null,
    pushHosts,
    deliveryAttempts: delivery.maxAttempts,
    commandAttempts: config.worker.maxAttempts,
    isAudited: config.neighbours.audit !== null,
    notifyStreams: inboxChanges.notify,
    inboxChanges,
    streams,
  });
};

/** Returns the notification service's routes: inboxes behind the gateway, intake from producers. */
export function notificationRoutes(deps: NotificationDeps): Route[] {
  return [...inboxRoutes(deps), ...pushRoutes(deps), ...unsubscribeRoutes(deps), ...producerRoutes(deps)];
}
