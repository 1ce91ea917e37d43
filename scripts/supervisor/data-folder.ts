import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { identify, isAlive, type ProcessIdentity } from './process-identity.ts';

/** A process of the supervisor of this folder. After a kill -9 the next supervisor reads this record. */
export interface RecordedProcess extends ProcessIdentity {
  readonly name: string;
}

export interface DataFolder {
  readonly path: string;
  /** Replaces the record of running processes. Call it at every start and death. */
  record(processes: readonly RecordedProcess[]): void;
  release(): void;
}

/**
 * Makes this process the only supervisor of a data folder and stops the processes of a killed predecessor. An orphaned database would lock
 * the files, and an orphaned worker would run beside its replacement.
 * @throws Error with the pid of the other supervisor if one is alive
 */
export async function takeDataFolder(folder: string, say: (line: string) => void): Promise<DataFolder> {
  const run = path.join(folder, 'run');
  mkdirSync(run, { recursive: true, mode: 0o700 });
  const lock = path.join(run, 'supervisor.json');
  const processes = path.join(run, 'processes.json');
  takeLock(lock, folder);
  const orphans = readJson<RecordedProcess[]>(processes) ?? [];
  await stopOrphans(orphans.filter(isAlive), say);

  return {
    path: folder,
    record: (running) => {
      writeFileSync(`${processes}.new`, JSON.stringify(running));
      renameSync(`${processes}.new`, processes);
    },
    release: () => {
      rmSync(processes, { force: true });
      rmSync(lock, { force: true });
    },
  };
}

function takeLock(lock: string, folder: string): void {
  const self = JSON.stringify(identify(process.pid));
  // Link a complete file, so that no process ever reads an incomplete lock.
  const own = `${lock}.${process.pid}`;
  writeFileSync(own, self);
  try {
    for (let tries = 0; tries < 10; tries += 1) {
      if (linked(own, lock)) return;
      const seen = readText(lock);
      const holder = seen === undefined ? undefined : parse<ProcessIdentity>(seen);
      if (holder !== undefined && isAlive(holder)) {
        throw new Error(
          `${folder} is in use by another npm start (pid ${holder.pid}); stop it or set DATA_DIR to another folder`,
        );
      }
      removeStale(lock, seen);
    }
    throw new Error(`${lock} cannot be locked`);
  } finally {
    rmSync(own, { force: true });
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
  if (readText(aside) !== seen) linked(aside, lock);
  rmSync(aside, { force: true });
}

async function stopOrphans(orphans: readonly RecordedProcess[], say: (line: string) => void): Promise<void> {
  if (orphans.length === 0) return;
  say(`stopping processes of a killed npm start: ${orphans.map(({ name, pid }) => `${name} (${pid})`).join(', ')}`);
  for (const orphan of orphans) signalGroup(orphan.pid, 'SIGTERM');
  const giveUpAt = Date.now() + 5_000;
  while (orphans.some(isAlive) && Date.now() < giveUpAt) await delay(50);
  for (const orphan of orphans.filter(isAlive)) signalGroup(orphan.pid, 'SIGKILL');
  while (orphans.some(isAlive)) await delay(20);
}

/** Signals a process group; does nothing if it has ended. Each of our processes leads its own group, which includes its children. */
export function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch {
    // The group has ended.
  }
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

function readText(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

function parse<T>(text: string): T | undefined {
  try {
    return JSON.parse(text) as T;
  } catch {
    return undefined;
  }
}

function readJson<T>(file: string): T | undefined {
  const text = readText(file);
  return text === undefined ? undefined : parse<T>(text);
}
