import type { Route } from '#api/route.ts';
import type { AttemptDeps } from './deps.ts';
import { intakeRoutes } from './intake-routes.ts';
import { sittingRoutes } from './sitting-routes.ts';
import { startRoutes } from './start-routes.ts';

/** The attempt service's routes, internal `/v1`: attempts behind the gateway, grades and releases from other services. */
export function attemptRoutes(deps: AttemptDeps): Route[] {
  return [...startRoutes(deps), ...sittingRoutes(deps), ...intakeRoutes(deps)];
}
