import type { Log } from '#infra/log/log.ts';

export interface DrainDeps {
  /** The process; tests give an emitter of their own. */
  signals: Pick<NodeJS.Process, 'on'>;
  exit(code: number): void;
  log: Log;
  /** Aborted first: `/readyz` turns 503, replies close their connections, streams end. */
  draining: AbortController;
  /** Stops accepting and lets requests finish; false when some had to be cut off. */
  close(timeoutMs: number): Promise<boolean>;
  /** After the last request: close stores, flush the log. */
  after(): Promise<void>;
  /** Time in which a load balancer's probe can see the 503 while connections are still accepted. */
  graceMs: number;
  /** For the grace and the requests together. */
  timeoutMs: number;
}

/** The stores' own closing must not outlast the platform's patience. */
const AFTER_MS = 2_000;

/**
 * Ends the process in order at SIGTERM or SIGINT, exit code 0 when nothing was cut off; a second signal ends it as it
 * is. An uncaught error ends it too, in order but with code 1: what it left behind in memory cannot be trusted.
 */
export function drainOnSignal(deps: DrainDeps): void {
  const { signals, log } = deps;
  let begun = false;

  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    signals.on(signal, () => {
      if (begun) return deps.exit(1);
      log.info({ signal }, 'draining');
      void drain(0);
    });
  }
  for (const event of ['uncaughtException', 'unhandledRejection'] as const) {
    signals.on(event, (error: unknown) => {
      log.fatal({ err: error, event }, 'uncaught error');
      if (!begun) void drain(1);
    });
  }

  async function drain(code: number): Promise<void> {
    begun = true;
    let exitCode = code;
    try {
      deps.draining.abort();
      await sleep(deps.graceMs);
      const whole = await deps.close(Math.max(0, deps.timeoutMs - deps.graceMs));
      if (!whole) {
        log.warn({ timeoutMs: deps.timeoutMs }, 'requests were cut off');
        exitCode = 1;
      }
    } catch (error) {
      log.error({ err: error }, 'drain failed');
      exitCode = 1;
    }
    await Promise.race([Promise.resolve(deps.after()).catch(() => undefined), sleep(AFTER_MS)]);
    deps.exit(exitCode);
  }
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
