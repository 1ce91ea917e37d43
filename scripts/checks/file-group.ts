import path from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';

/**
 * Program: runs several test files in one process, which spares each of them the start of Node, tap and the product's modules. TEST_GROUP
 * names the files, separated by commas; the only argument is a number of the group, which tap makes a part of the names of its folders. A
 * comment before the tests of a file names it, so that the runner reports each file by itself.
 *
 * A file begins when the tests of the previous one have ended and its teardown has run, as in a process of its own. The databases that a
 * file opens are therefore closed before the next file.
 */
const { test } = t;
for (const file of (process.env.TEST_GROUP ?? '').split(',')) {
  t.comment(`file ${file}`);
  const tests: unknown[] = [];
  const works: (() => unknown)[] = [];
  Object.assign(t, {
    test(...args: Parameters<typeof test>) {
      const result = test.apply(t, args);
      tests.push(result);
      return result;
    },
    teardown: (work: () => unknown) => void works.push(work),
  });
  await import(pathToFileURL(path.resolve(file)).href);
  await Promise.all(tests);
  // In the order of tap: the last resource that was opened is closed first.
  for (const work of works.reverse()) await work();
}
