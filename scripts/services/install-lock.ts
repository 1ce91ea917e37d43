import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

/** A holder writes its lock again this often (ms); one that is older than STALE_MS is nobody's. */
const TOUCH_MS = 10_000;
const STALE_MS = 5 * 60_000;

/** Runs `work` while no other process runs the work of the same lock file. */
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
    // Empty: its holder is between open and write. Not touched: the pid was given out again.
    if (holder === 0) return ageMs > 5_000;
    if (ageMs > STALE_MS) return true;
    process.kill(holder, 0);
    return false;
  } catch (error) {
    return !(error instanceof Error && 'code' in error && error.code === 'EPERM');
  }
}
