import { existsSync, readFileSync } from 'node:fs';

/** Time of a clock tick in `/proc` (ms); Linux has no other for programs. */
const TICK_MS = 10;

/** Returns the processor time of a process so far (ms), of all its threads; NaN where the system has no `/proc`. */
export function processorMs(pid: number | undefined): number {
  const file = `/proc/${pid}/stat`;
  if (!existsSync(file)) return Number.NaN;
  // The fields follow the name of the program, which may hold spaces.
  const fields = readFileSync(file, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}
