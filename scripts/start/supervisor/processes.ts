import { execFileSync } from 'node:child_process';
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

/** Identifies one process for ever. The pid alone is reused after the death of a process. */
export interface ProcessIdentity {
  readonly pid: number;
  readonly startedAt: string;
}

/** Returns the identity of a living process; undefined if there is no such process or if it is a zombie. */
export function identify(pid: number): ProcessIdentity | undefined {
  try {
    const startedAt = process.platform === 'linux' ? startFromProc(pid) : startFromPs(pid);
    return startedAt === undefined ? undefined : { pid, startedAt };
  } catch {
    return undefined;
  }
}

export function isAlive(identity: ProcessIdentity): boolean {
  const found = identify(identity.pid);
  return found !== undefined && found.startedAt === identity.startedAt;
}

function startFromProc(pid: number): string | undefined {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The second field is the command in brackets, which may contain spaces and brackets itself: count from the last bracket.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  // The start is counted in ticks since boot, so the identity includes the boot id.
  const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  return fields[0] === 'Z' || fields[0] === 'X' ? undefined : `${boot}:${fields[19]}`;
}

function startFromPs(pid: number): string | undefined {
  const args = ['-o', 'lstart=', '-p', String(pid)];
  return execFileSync('ps', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim() || undefined;
}

/** Signals a process group; does nothing if it has ended. Each of our processes leads its own group, which includes its children. */
export function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch {
    // The group has ended.
  }
}

/** Signals that request a stop. A closed terminal sends SIGHUP. */
const STOP_SIGNALS: readonly NodeJS.Signals[] = ['SIGTERM', 'SIGINT', 'SIGHUP'];
/** One Ctrl-C may arrive twice, from the terminal and forwarded by npm. Only a signal after this time counts as a second one. */
const ECHO_MS = 700;

/** Calls `first` at the first stop signal and `again` at a later one. */
export function onStopSignals(handlers: { first: (signal: NodeJS.Signals) => void; again: () => void }): void {
  let firstAt: number | undefined;
  for (const signal of STOP_SIGNALS) {
    process.on(signal, () => {
      const now = performance.now();
      if (firstAt === undefined) {
        firstAt = now;
        handlers.first(signal);
      } else if (now - firstAt > ECHO_MS) handlers.again();
    });
  }
}

/**
 * Takes a lock file, which names its holder; a holder that has died holds nothing. Returns undefined if this process now holds it, otherwise
 * the living holder. The holder releases a lock by deleting the file.
 */
function takeLock(lock: string): ProcessIdentity | undefined {
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

/** Returns the value of JSON; undefined if there is no text or it is incomplete. */
function parsed<T>(text: string | undefined): T | undefined {
  try {
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A process of the supervisor of this folder. After a kill -9 the next supervisor reads this record. */
export interface RecordedProcess extends ProcessIdentity {
  readonly name: string;
}

export type DataFolder = Awaited<ReturnType<typeof takeDataFolder>>;

/**
 * Makes this process the only supervisor of a data folder and stops the processes of a killed predecessor. An orphaned database would lock
 * the files, and an orphaned worker would run beside its replacement.
 * @throws Error with the pid of the other supervisor if one is alive
 */
export async function takeDataFolder(folder: string, say: (line: string) => void) {
  const run = path.join(folder, 'run');
  mkdirSync(run, { recursive: true, mode: 0o700 });
  const lock = path.join(run, 'supervisor.json');
  const processes = path.join(run, 'processes.json');
  const other = takeLock(lock);
  if (other !== undefined) {
    const how = 'stop it or set DATA_DIR to another folder';
    throw new Error(`${folder} is in use by another npm start (pid ${other.pid}); ${how}`);
  }
  const orphans = parsed<RecordedProcess[]>(textOf(processes)) ?? [];
  await stopOrphans(orphans.filter(isAlive), say);

  return {
    path: folder,
    /** Replaces the record of running processes. Call it at every start and death. */
    record(running: readonly RecordedProcess[]): void {
      writeFileSync(`${processes}.new`, JSON.stringify(running));
      renameSync(`${processes}.new`, processes);
    },
    release(): void {
      rmSync(processes, { force: true });
      rmSync(lock, { force: true });
    },
  };
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
