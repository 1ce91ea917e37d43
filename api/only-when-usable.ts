import type { Route } from './route.ts';

/** Until the database is usable, a service's routes answer 503: without the unique indexes no promise would hold. */
export function onlyWhenUsable(routes: readonly Route[], usable: () => boolean): Route[] {
  return routes.map((route) => ({
    ...route,
    handle: async (call) => (usable() ? route.handle(call) : { rejected: 'UNAVAILABLE', retryAfter: 1 }),
  }));
}
