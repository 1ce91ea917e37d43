import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';

const NEEDS_STORES = /\.(int|e2e)\.test\.ts$/;

/** Returns whether a test file needs no MongoDB, no Redis and no process of the product: neither `.int.test.ts` nor `.e2e.test.ts`. */
export const isPure = (file: string): boolean => !NEEDS_STORES.test(file);

/** Returns whether a test file starts whole processes of the product: `.e2e.test.ts`. */
export const startsProcesses = (file: string): boolean => /\.e2e\.test\.ts$/.test(file);

/** Test of the quick run with a whole cluster: starts, saves, submits and grades attempts of every kind of question. */
const SMOKE = 'api/attempt/scoring.e2e.test.ts';

/** Returns whether a file belongs to the quick run. */
export const isQuick = (file: string): boolean => isPure(file) || file === SMOKE;

const RESTS_ON_ENGINE = [
  /^shared\/infra\/mongo\/(?!person\/crash-points)/,
  /^scripts\/(faults\/(mongodb|workers)|services)\./,
  /^workers\/(kernel\.|(grading|results-release)\/crash-points\.)/,
  /\/(outages|lost-replies|races|release-races)\.|\.race\./,
];

/** Returns whether a file tests guarantees of the database: single commands, races, kills and faults. */
export const restsOnEngine = (file: string): boolean =>
  !isPure(file) && RESTS_ON_ENGINE.some((name) => name.test(file));

/** Returns every test file whose path contains one of `filters`, or all test files without a filter. */
export function findTestFiles(root: string, filters: readonly string[]): string[] {
  const files = globSync(includedByTap(root), { cwd: root });
  const parts = filters.map((filter) => path.normalize(filter));
  return files.filter((file) => parts.length === 0 || parts.some((part) => file.includes(part))).sort();
}

/** Returns the glob of .taprc, so that tap and this list select the same files. */
function includedByTap(root: string): string {
  const [, glob] = /^include:\n {2}- '(.+)'$/m.exec(readFileSync(path.join(root, '.taprc'), 'utf8')) ?? [];
  if (glob === undefined) throw new Error('.taprc has no line "  - \'<glob>\'" after include:');
  return glob;
}
