import path from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';

/**
 * Program: runs several pure test files in one process, which spares each of them the start of Node and tap. TEST_GROUP names the
 * files, separated by commas; the only argument is a number of the group, which tap makes a part of the names of its folders. A comment
 * before the tests of a file names it, so that the runner reports each file by itself.
 */
for (const file of (process.env.TEST_GROUP ?? '').split(',')) {
  t.comment(`file ${file}`);
  await import(pathToFileURL(path.resolve(file)).href);
}
