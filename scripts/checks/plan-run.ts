import type { Durations } from './durations.ts';
import { isPure } from './test-files.ts';

/** Source that needs a process of its own: it changes the process, its environment or its clock, or measures it. */
const OWN_PROCESS =
  /\bprocess\.|\b(nock|mockProviders|child_process|globalThis|worker_threads)\b|\.(testdir|beforeEach|afterEach|plan)\(|\bmock\./;
const GROUP_SIZE = 16;

/**
 * Returns the processes of a run, the longest first. Each item names one file, or several pure files, joined by commas, that share a
 * process. `readSource` is missing if every file gets its own process.
 */
export function planRun(
  files: readonly string[],
  durations: Pick<Durations, 'expected'>,
  readSource?: (file: string) => string,
): string[] {
  const mayShare = (file: string) => readSource !== undefined && isPure(file) && !OWN_PROCESS.test(readSource(file));
  const { shared = [], alone = [] } = Object.groupBy(files, (file) => (mayShare(file) ? 'shared' : 'alone'));
  const groups = Array.from({ length: Math.ceil(shared.length / GROUP_SIZE) }, (_, index) =>
    shared.slice(index * GROUP_SIZE, (index + 1) * GROUP_SIZE),
  );
  const total = (item: readonly string[]) => item.reduce((sum, file) => sum + durations.expected(file), 0);
  return [...alone.map((file) => [file]), ...groups].sort((a, b) => total(b) - total(a)).map((item) => item.join(','));
}
