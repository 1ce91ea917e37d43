import type { Log } from '#infra/log/log.ts';

const silent = (): void => undefined;

/** A log for parts that are measured here and not watched. */
export const quietLog: Log = {
  debug: silent,
  info: silent,
  warn: silent,
  error: silent,
  fatal: silent,
  child: () => quietLog,
};
