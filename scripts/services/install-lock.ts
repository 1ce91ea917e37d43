import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

/** Interval at which a holder rewrites its lock. */
const TOUCH_MS = 10_000;
/** Age from which a lock has no holder any more. */
const STALE_MS = 5 * 60_000;

/** Waits for the lock file and runs `work` while holding it. Only one process at a time runs the work of a lock file. */
export async function withInstallLock<T>(lock: string, work: () => Promise<T>): Promise<T> {
  mkdirSync(path.dirname(lock), { recursive: true });
  while (!tryLock(lock)) {
    if (isStale(lock)) rmSync(lock, { force: true });
    else await delay(200);
  }
  const release = () => rmSync(lock, { force: true });
  process.once('exit', release);
  const touch = setInterval(() => writeFileSync(lock, String(process.pid)), TOUCH_MS);
  touch.unref();
  try {
    return await work();
  } finally {
    clearInterval(touch);
    process.off('exit', release);
    release();
  }
}

function tryLock(lock: string): boolean {
  try {
    writeFileSync(lock, String(process.pid), { flag: 'wx' });
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  }
}

function isStale(lock: string): boolean {
  try {
    const holder = Number(readFileSync(lock, 'utf8'));
    const ageMs = Date.now() - statSync(lock).mtimeMs;
    // An empty lock belongs to a holder between open and write. An old lock names a pid that may have been reused.
    if (holder === 0) return ageMs > 5_000;
    if (ageMs > STALE_MS) return true;
    process.kill(holder, 0);
    return false;
  } catch (error) {
    return !(error instanceof Error && 'code' in error && error.code === 'EPERM');
  }
}
