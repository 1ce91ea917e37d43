import type { Durations } from './durations.ts';
import { isPure, startsProcesses } from './test-files.ts';

/** Source that needs a process of its own: it changes the process, its environment or its clock, or measures it. */
const OWN_PROCESS =
  /(?<![-/])\b(process|mock)\.(?!ts\b)\w|\b(nock|mockProviders|child_process|globalThis|worker_threads|requireBrowser)\b|\.(testdir|beforeEach|afterEach|plan)\(/;
/** Numbers of files that share a process. Files with stores take longer, and a lane needs processes of similar lengths. */
const GROUP_SIZES = { pure: 16, stores: 8 };
/** Expected duration of a file that gets a process of its own, because its start is a small part of it. */
const LONG_MS = 10_000;
/** Source of an .e2e file whose cluster runs inside the process of the test, so that it shares a process like a file with stores. */
const INSIDE = /\binside: true\b/;

/**
 * Returns the processes of a run, the longest first. Each item names one file, or several files that share a process, joined by commas.
 * Pure files share one, and so do files that need the stores of a lane but start no process of the product for their cluster. `readSource`
 * is missing if every file gets its own process.
 */
export function planRun(
  files: readonly string[],
  durations: Pick<Durations, 'expected'>,
  readSource?: (file: string) => string,
): string[] {
  const kindOf = (file: string) => {
    if (readSource === undefined) return 'alone';
    if (!isPure(file) && durations.expected(file) > LONG_MS) return 'alone';
    const source = readSource(file);
    if (OWN_PROCESS.test(source) || (startsProcesses(file) && !INSIDE.test(source))) return 'alone';
    return isPure(file) ? 'pure' : 'stores';
  };
  const { pure = [], stores = [], alone = [] } = Object.groupBy(files, kindOf);
  const groups = [...inGroups(pure, GROUP_SIZES.pure), ...inGroups(stores, GROUP_SIZES.stores)];
  const total = (item: readonly string[]) => item.reduce((sum, file) => sum + durations.expected(file), 0);
  return [...alone.map((file) => [file]), ...groups].sort((a, b) => total(b) - total(a)).map((item) => item.join(','));
}

function inGroups(files: readonly string[], size: number): string[][] {
  return Array.from({ length: Math.ceil(files.length / size) }, (_, index) =>
    files.slice(index * size, (index + 1) * size),
  );
}
