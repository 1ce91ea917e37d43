import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { identify, isAlive, type ProcessIdentity } from './process-identity.ts';

/** A process that the supervisor of this folder has started, as its successor finds it after a kill -9. */
export interface RecordedProcess extends ProcessIdentity {
  readonly name: string;
}

export interface DataFolder {
  readonly path: string;
  /** Replaces the record of what is running; call it at every start and death. */
  record(processes: readonly RecordedProcess[]): void;
  release(): void;
}

/**
 * Makes this process the only supervisor of a data folder and stops what a killed predecessor left running there: an orphaned
 * database would hold the files, an orphaned worker would go on working beside its replacement.
 * @throws Error naming the other supervisor's pid when one is alive.
 */
export async function takeDataFolder(folder: string, say: (line: string) => void): Promise<DataFolder> {
  const run = path.join(folder, 'run');
  mkdirSync(run, { recursive: true });
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
  // Linking a file already written: nobody ever reads a lock that is half there.
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
    throw new Error(`${lock} cannot be taken`);
  } finally {
    rmSync(own, { force: true });
  }
}

/** Only one of several that saw the same stale lock may remove it, and none may remove a fresh one. */
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
  say(
    `stopping what a killed predecessor left running: ${orphans.map(({ name, pid }) => `${name} (${pid})`).join(', ')}`,
  );
  for (const orphan of orphans) signalGroup(orphan.pid, 'SIGTERM');
  const patience = Date.now() + 5_000;
  while (orphans.some(isAlive) && Date.now() < patience) await delay(50);
  for (const orphan of orphans.filter(isAlive)) signalGroup(orphan.pid, 'SIGKILL');
  while (orphans.some(isAlive)) await delay(20);
}

/** Each of our processes leads a group of its own; signalling the group reaches what it started as well. */
export function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch {
    // Gone already.
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
