import type { Route } from '#api/route.ts';
import type { Log } from '#infra/log/log.ts';
import { HasherBusy } from '#infra/passwords/fair-queue.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { SECOND } from '#shared/kernel/time.ts';

type Handle = Route['handle'];

/** Least time between two lines of the log about overload. */
const LOG_EVERY_MS = SECOND;

/**
 * Returns routes that answer 503 if the hash queue refuses their work. Overload is logged at most once a second, with the number of
 * refusals and without their stacks: a flood would otherwise fill the log. `clock`: ms that never decrease.
 */
export function refuseWhenBusy(routes: Route[], log: Pick<Log, 'warn'>, clock: () => number): Route[] {
  let loggedAt = Number.NEGATIVE_INFINITY;
  let refused = 0;

  function note(): Rejection {
    refused += 1;
    if (clock() - loggedAt >= LOG_EVERY_MS) {
      log.warn({ refused }, 'hash queue refused requests: too many passwords are waiting');
      loggedAt = clock();
      refused = 0;
    }
    return { rejected: 'UNAVAILABLE', retryAfter: 1 };
  }

  function guarded(handle: Handle): Handle {
    return async (call) => {
      try {
        return await handle(call);
      } catch (error) {
        if (error instanceof HasherBusy) return note();
        throw error;
      }
    };
  }

  return routes.map((route) => ({ ...route, handle: guarded((call) => route.handle(call)) }));
}
