import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

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

/** Returns whether exactly this process is alive. */
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
