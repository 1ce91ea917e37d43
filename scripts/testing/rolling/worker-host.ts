import path from 'node:path';
import { pathToFileURL } from 'node:url';

/**
 * Program that runs several worker types of the release in the working directory in one process, which spares their starts. It loads
 * `workers/main.ts` once for each type, so that it works with every release. The process ends when all workers have drained.
 */
const types = process.argv.slice(2);
const main = pathToFileURL(path.resolve('workers/main.ts')).href;
const exit = process.exit;
const codes: number[] = [];
process.setMaxListeners(100);
process.exit = ((code = 0) => {
  codes.push(Number(code));
  if (codes.length >= types.length) exit(Math.max(...codes));
}) as typeof process.exit;
for (const type of types) {
  process.argv[2] = type;
  await import(`${main}?${type}`);
}
