import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { ACTORS } from './actors.ts';

/** Returns the actors that a suite runs with. Each has its own file, so that the files can run in parallel. */
function actorsIn(suite: string, files: string): string[] {
  return globSync(files, { cwd: import.meta.dirname })
    .map((file) => {
      const text = readFileSync(path.join(import.meta.dirname, file), 'utf8');
      return new RegExp(`${suite}\\(t, '(\\w+)'`).exec(text)?.[1] ?? `none in ${file}`;
    })
    .sort();
}

t.test('every actor has a kernel suite and a crash-point suite', async (t) => {
  const names = Object.keys(ACTORS).sort();
  t.strictSame(actorsIn('kernelSuite', '*/kernel.int.test.ts'), names);
  t.strictSame(actorsIn('crashSuite', '*/crash-points.e2e.test.ts'), names);
});
