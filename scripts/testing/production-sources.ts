import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';

const ROOT = path.resolve(import.meta.dirname, '../..');

/** Returns the source of every production file, by its path from the root of the project. Tests and generated types are left out. */
export function productionSources(): ReadonlyMap<string, string> {
  const files = globSync('{api,workers,shared}/**/*.ts', { cwd: ROOT })
    .map((file) => file.split(path.sep).join('/'))
    .filter((file) => !/\.test\.ts$|\.d\.ts$|^shared\/generated\//.test(file))
    .sort();
  return new Map(files.map((file) => [file, readFileSync(path.join(ROOT, file), 'utf8')]));
}
