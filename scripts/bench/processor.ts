import { existsSync, readFileSync } from 'node:fs';
import os from 'node:os';

/** Time of a clock tick in `/proc` (ms); Linux has no other for programs. */
const TICK_MS = 10;

/** Returns the processor time of a process so far (ms), of all its threads; NaN if it has ended or the system has no `/proc`. */
export function processorMs(pid: number | undefined): number {
  const file = `/proc/${pid}/stat`;
  if (!existsSync(file)) return Number.NaN;
  // The fields follow the name of the program, which may hold spaces.
  const fields = readFileSync(file, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

/** Processor time of some processes during a measurement, in percent of one processor. */
export interface Shares {
  /** By name, the busiest first. Leaves out a process that is unknown or has ended. */
  of: readonly (readonly [name: string, percent: number])[];
  /** Processor time of all other programs of the machine. */
  others: number;
  processors: number;
}

/** Begins to count the processor time of these processes. The returned function ends it. */
export function openShares(pids: Readonly<Record<string, number | undefined>>): () => Shares {
  const from = performance.now();
  const machineFrom = busyMs();
  const spent = Object.entries(pids).map(([name, pid]) => ({ name, pid, ms: processorMs(pid) }));
  return () => {
    const percent = (ms: number) => Math.round((ms / (performance.now() - from)) * 100);
    const shares = spent
      .map(({ name, pid, ms }) => [name, percent(processorMs(pid) - ms)] as const)
      .filter(([, share]) => !Number.isNaN(share))
      .sort(([, a], [, b]) => b - a);
    const own = shares.reduce((sum, [, share]) => sum + share, 0);
    const others = Math.max(0, percent(busyMs() - machineFrom) - own);
    return { of: shares, others, processors: os.availableParallelism() };
  };
}

/** Returns the processor time that all programs of the machine have used (ms). */
function busyMs(): number {
  const times = os.cpus().map((cpu) => cpu.times);
  return times.reduce((sum, { user, nice, sys, irq }) => sum + user + nice + sys + irq, 0);
}

/** Shares from which a process, or all processors together, counts as the limit (percent of one, percent of all). */
const [FULL, ALL_FULL] = [85, 85];

/** Returns what limited a measurement: processors without time left, a process that used one whole processor, or neither. */
export function limitOf({ of, others, processors }: Shares): string {
  const [busiest] = of;
  const own = of.reduce((sum, [, share]) => sum + share, 0);
  if (own + others >= ALL_FULL * processors) {
    const mostly = busiest === undefined ? '' : `, most of all ${busiest[0]}`;
    return others > own ? 'other programs of the machine' : `all processors${mostly}`;
  }
  if (busiest !== undefined && busiest[1] >= FULL) return busiest[0];
  return 'waiting, not processor time';
}

/** Returns the shares as text, without those of 0 %: "front door 61 %, MongoDB 40 %, other programs 12 %". */
export function sharesText({ of, others }: Shares): string {
  const all = [...of, ['other programs', others] as const].filter(([, share]) => share > 0);
  return all.map(([name, share]) => `${name} ${share} %`).join(', ');
}
