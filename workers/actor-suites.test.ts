import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { ACTORS } from './actors.ts';

t.test('every actor has a crash-point suite', async (t) => {
  // Each has its own file, so that the files can run in parallel.
  const found = globSync('*/crash-points.e2e.test.ts', { cwd: import.meta.dirname }).map((file) => {
    const text = readFileSync(path.join(import.meta.dirname, file), 'utf8');
    return /crashSuite\(t, '(\w+)'/.exec(text)?.[1] ?? `none in ${file}`;
  });
  t.strictSame(found.sort(), Object.keys(ACTORS).sort());
});
