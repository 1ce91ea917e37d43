import { flushCompileCache } from 'node:module';
import { type EventLoopUtilization, performance } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Log } from '#infra/log/log.ts';

/** Interval of the checks whether a process is idle. After the first one, its first polls and connections are over. */
const CHECK_MS = 3_000;
/** Greatest share of an interval in which an idle process computes. */
const IDLE_SHARE = 0.1;

/**
 * Ends the loading of a process once it is idle: stores newly compiled modules in Node's compile cache and frees the garbage of loading.
 * This takes 50–150 ms, in which the process does nothing else, so a busy process does it later. Does not keep the process alive.
 */
export function endLoadingWhenIdle(log: Pick<Log, 'debug'>): void {
  let before = performance.eventLoopUtilization();
  const timer = setInterval(() => {
    const now = performance.eventLoopUtilization();
    if (!isIdle(now, before)) {
      before = now;
      return;
    }
    clearInterval(timer);
    endLoading(log);
  }, CHECK_MS);
  timer.unref();
}

function isIdle(now: EventLoopUtilization, before: EventLoopUtilization): boolean {
  return performance.eventLoopUtilization(now, before).utilization <= IDLE_SHARE;
}

/**
 * Loading fills the space for young objects, which grows to 32 MB, and leaves another 10 MB of garbage. V8 frees neither while a process
 * is idle. Under load the space grows again.
 */
function endLoading(log: Pick<Log, 'debug'>): void {
  try {
    // Node stores it at an orderly exit only, and a platform may kill the process.
    flushCompileCache();
    setFlagsFromString('--expose-gc');
    const collect: (options: object) => void = runInNewContext('gc');
    // The other flavor leaves the space for young objects at its size.
    collect({ type: 'major', flavor: 'last-resort', execution: 'sync' });
  } catch (err) {
    log.debug({ err }, 'garbage of the start could not be freed; process uses more memory');
  } finally {
    setFlagsFromString('--no-expose-gc');
  }
}
