import type { Log, LogDestination } from '#infra/log/log.ts';

/** The process around a front door or a worker. A test replaces it to run several of them inside its own process. */
export interface ProcessHost {
  /** Emits the signals: the process itself, or an emitter in tests. */
  signals: Pick<NodeJS.Process, 'on'>;
  exit(code: number): void;
  /** Receives the log. Default: standard output. */
  logTo?: LogDestination;
  /** The environment of threads that it starts. Default: that of the process. */
  env?: NodeJS.ProcessEnv;
}

export const OWN_PROCESS: ProcessHost = { signals: process, exit: process.exit };

export interface DrainDeps extends Pick<ProcessHost, 'signals' | 'exit'> {
  log: Log;
  /** Aborted first: `/readyz` turns 503, replies close their connections, streams end. */
  draining: AbortController;
  /** Stops accepting requests or commands and waits for those in progress. Returns false if some had to be aborted. */
  close(timeoutMs: number): Promise<boolean>;
  /** Called after the last request or run: closes stores and flushes the log. */
  after(): Promise<void>;
  /** Time in which a load balancer's probe can see the 503 while connections are still accepted. */
  graceMs: number;
  /** Time limit for the grace and `close` together. */
  timeoutMs: number;
}

/** Time limit of `after`, so that a slow store does not delay the exit until the platform kills the process. */
const AFTER_MS = 2_000;

/**
 * Shuts the process down in order at SIGTERM or SIGINT. The exit code is 0 if nothing was aborted, else 1. A second signal exits at
 * once. An uncaught error also shuts the process down in order, with code 1, because its state in memory cannot be trusted.
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
        log.warn({ timeoutMs: deps.timeoutMs }, 'shutdown time limit reached; requests or runs aborted');
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
