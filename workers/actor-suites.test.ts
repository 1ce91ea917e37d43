import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { ACTORS } from './actors.ts';

/** The actors that a suite is run with: each has a file of its own, so that files can run beside each other. */
function actorsIn(suite: string, files: string): string[] {
  return globSync(files, { cwd: import.meta.dirname })
    .map((file) => {
      const text = readFileSync(path.join(import.meta.dirname, file), 'utf8');
      return new RegExp(`${suite}\\(t, '(\\w+)'\\)`).exec(text)?.[1] ?? `none in ${file}`;
    })
    .sort();
}

t.test('every actor is held to what the kernel promises, and killed at every await', async (t) => {
  const names = Object.keys(ACTORS).sort();
  t.strictSame(actorsIn('kernelSuite', '*/kernel.int.test.ts'), names);
  t.strictSame(actorsIn('crashSuite', '*/crash-points.e2e.test.ts'), names);
});
