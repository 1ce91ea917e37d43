import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { isAlive, type ProcessIdentity, readJson, signalGroup, takeLock } from './processes.ts';

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
  const orphans = readJson<RecordedProcess[]>(processes) ?? [];
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
