import { flushCompileCache } from 'node:module';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Log } from '#infra/log/log.ts';

/** Time after which the first polls and connections of an idle process are over. */
const SETTLED_MS = 3_000;

/**
 * Ends the loading of a process: stores newly compiled modules in Node's compile cache and frees the garbage of loading. Takes some 50 ms,
 * in which the process does nothing else.
 *
 * Loading fills the space for young objects, which grows to 32 MB, and leaves another 10 MB of garbage. V8 frees neither while a process
 * is idle. Under load the space grows again.
 */
export function endLoading(log: Pick<Log, 'debug'>): void {
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

/** Ends the loading of a process that serves no caller, once it is idle. Does not keep the process alive. */
export function endLoadingSoon(log: Pick<Log, 'debug'>): void {
  setTimeout(() => endLoading(log), SETTLED_MS).unref();
}
