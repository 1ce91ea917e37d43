import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { identify, isAlive, type ProcessIdentity } from './processes.ts';

/**
 * Takes a lock file, which names its holder; a holder that has died holds nothing. Returns undefined if this process now holds it, otherwise
 * the living holder. The holder releases a lock by deleting the file.
 */
export function takeLock(lock: string): ProcessIdentity | undefined {
  // Link a complete file, so that no process ever reads an incomplete lock.
  const own = `${lock}.${process.pid}`;
  writeFileSync(own, JSON.stringify(identify(process.pid)));
  try {
    for (let tries = 0; tries < 10; tries += 1) {
      if (linked(own, lock)) return undefined;
      const seen = textOf(lock);
      const holder = parsed<ProcessIdentity>(seen);
      if (holder !== undefined && isAlive(holder)) return holder;
      removeStale(lock, seen);
    }
    throw new Error(`${lock} cannot be locked`);
  } finally {
    rmSync(own, { force: true });
  }
}

/** Waits for the lock file and runs `work` while holding it. Only one process at a time runs the work of a lock file. */
export async function withLock<T>(lock: string, work: () => Promise<T>): Promise<T> {
  mkdirSync(path.dirname(lock), { recursive: true });
  while (takeLock(lock) !== undefined) await delay(200);
  const release = () => rmSync(lock, { force: true });
  process.once('exit', release);
  try {
    return await work();
  } finally {
    process.off('exit', release);
    release();
  }
}

/** Removes a stale lock. If several processes saw it, only one removes it. A lock that was replaced since `seen` is put back. */
function removeStale(lock: string, seen: string | undefined): void {
  const aside = `${lock}.stale.${process.pid}`;
  try {
    renameSync(lock, aside);
  } catch {
    return;
  }
  if (textOf(aside) !== seen) linked(aside, lock);
  rmSync(aside, { force: true });
}

function linked(from: string, to: string): boolean {
  try {
    linkSync(from, to);
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  }
}

function textOf(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

/** Returns the value in a JSON file; undefined if there is no such file or it is incomplete. */
export function readJson<T>(file: string): T | undefined {
  return parsed(textOf(file));
}

function parsed<T>(text: string | undefined): T | undefined {
  try {
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}
