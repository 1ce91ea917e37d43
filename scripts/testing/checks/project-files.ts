import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { parse } from 'yaml';

const ROOT = path.resolve(import.meta.dirname, '../../..');
const NEEDS_STORES = /\.(int|e2e)\.test\.ts$/;

/** Returns whether a test file needs no MongoDB, no Redis and no process of the product: neither `.int.test.ts` nor `.e2e.test.ts`. */
export const isPure = (file: string): boolean => !NEEDS_STORES.test(file);

/** Test of the quick run with a whole cluster: starts, saves, submits and grades attempts of every kind of question. */
const SMOKE = 'api/attempt/scoring.e2e.test.ts';

export const isQuick = (file: string): boolean => isPure(file) || file === SMOKE;

/** Left out: an erasure at each crash point, and the files with writes of hundreds of rows, which outlast their time limits in Python. */
export const RESTS_ON_ENGINE = [
  /^shared\/infra\/mongo\/(?!person\/crash-points|notification\/(fan-out|inbox-changes))/,
  /^scripts\/(testing\/faults\/(stores|workers)|start\/services)\./,
  /^workers\/(kernel|crash-points\.grades)\./,
  /\/(outages|lost-replies|races)\.|\.race\./,
];

/** Returns whether a file tests guarantees of the database: single commands, races, kills and faults. */
export const restsOnEngine = (file: string): boolean =>
  !isPure(file) && RESTS_ON_ENGINE.some((name) => name.test(file));

/** Returns the test files of .taprc whose path contains one of `filters`, or all without a filter. */
export function findTestFiles(root: string, filters: readonly string[]): string[] {
  const { include } = parse(readFileSync(path.join(root, '.taprc'), 'utf8')) as { include: string[] };
  const parts = filters.map((filter) => path.normalize(filter));
  const files = globSync(include, { cwd: root });
  return files.filter((file) => parts.length === 0 || parts.some((part) => file.includes(part))).sort();
}

/** Returns the source of every production file, by its path from the root of the project. Tests and generated types are left out. */
export function productionSources(): ReadonlyMap<string, string> {
  const files = globSync('{api,workers,shared}/**/*.ts', { cwd: ROOT })
    .map((file) => file.split(path.sep).join('/'))
    .filter((file) => !/\.test\.ts$|\.d\.ts$|^shared\/generated\//.test(file))
    .sort();
  return new Map(files.map((file) => [file, readFileSync(path.join(ROOT, file), 'utf8')]));
}
