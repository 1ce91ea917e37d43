import type { Log } from '../shared/infra/log/log.ts';
import type { Route } from './route.ts';

export interface UsableDeps {
  /** What keeps this process from serving on this database, one line each. */
  faults(): Promise<readonly string[]>;
  /** Measures MongoDB's clock: no deadline may be judged by our own. */
  measure(): Promise<void>;
  log: Log;
  stop: AbortSignal;
  /** Default 1 s. */
  retryMs?: number;
}

/**
 * Checks the database until it is fit to serve from, then never again. The process listens meanwhile and is unready:
 * it may well have been started before MongoDB, or before the release that brings the schema.
 */
export function whenUsable({ faults, measure, log, stop, retryMs = 1_000 }: UsableDeps): () => boolean {
  let usable = false;
  let said = '';

  async function check(): Promise<void> {
    try {
      const found = await faults();
      if (found.length === 0) {
        await measure();
        usable = true;
        return;
      }
      say(found.join('; '));
    } catch (error) {
      say(error instanceof Error ? error.message : String(error));
    }
    if (!stop.aborted) setTimeout(() => void check(), retryMs).unref();
  }
  /** Each new reason once, not once a second. */
  function say(reason: string): void {
    if (reason !== said) log.warn({ reason }, 'not usable yet');
    said = reason;
  }

  void check();
  return () => usable;
}

/** Until the database is usable, a service's routes answer 503: without the unique indexes no promise would hold. */
export function onlyWhenUsable(routes: readonly Route[], usable: () => boolean): Route[] {
  return routes.map((route) => ({
    ...route,
    handle: async (call) => (usable() ? route.handle(call) : { rejected: 'UNAVAILABLE', retryAfter: 1 }),
  }));
}
