import type { Route } from '#api/route.ts';
import type { NotificationDeps } from './deps.ts';
import { inboxRoutes } from './inbox-routes.ts';
import { producerRoutes } from './producer-routes.ts';

/** The notification service's routes: inboxes behind the gateway, intake from producers. */
export function notificationRoutes(deps: NotificationDeps): Route[] {
  return [...inboxRoutes(deps), ...producerRoutes(deps)];
}
