import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';

const NEEDS_STORES = /\.(int|e2e)\.test\.ts$/;

/** A pure test file needs no MongoDB, no Redis and no processes of ours: it is neither an `.int.test.ts` nor an `.e2e.test.ts`. */
export const isPure = (file: string): boolean => !NEEDS_STORES.test(file);

const RESTS_ON_ENGINE = [
  /^shared\/infra\/mongo\//,
  /^scripts\/(faults\/(mongodb|workers|doors|waiters)|services)\./,
  /\/(crash-points|kernel|outages|lost-replies|races|release-races)\.|\.race\./,
];

/** Whether the file tests what the database promises: command by command, in races, and through kills and faults. */
export const restsOnEngine = (file: string): boolean =>
  !isPure(file) && RESTS_ON_ENGINE.some((name) => name.test(file));

/** Every test file whose path contains one of `filters`; all of them if there is no filter. */
export function findTestFiles(root: string, filters: readonly string[]): string[] {
  const files = globSync(includedByTap(root), { cwd: root });
  const parts = filters.map((filter) => path.normalize(filter));
  return files.filter((file) => parts.length === 0 || parts.some((part) => file.includes(part))).sort();
}

/** The glob of .taprc, by which tap alone finds the files. */
function includedByTap(root: string): string {
  const [, glob] = /^include:\n {2}- '(.+)'$/m.exec(readFileSync(path.join(root, '.taprc'), 'utf8')) ?? [];
  if (glob === undefined) throw new Error('.taprc has no line "  - \'<glob>\'" after include:');
  return glob;
}
