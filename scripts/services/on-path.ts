import { accessSync, constants, statSync } from 'node:fs';
import path from 'node:path';

/** Returns the absolute path of the first of `names` that is an executable file on PATH; undefined if none is. */
export function onPath(names: readonly string[], searchPath: string | undefined): string | undefined {
  for (const name of names) {
    for (const folder of (searchPath ?? '').split(path.delimiter)) {
      if (folder === '') continue;
      const file = path.resolve(folder, name);
      if (isExecutable(file)) return file;
    }
  }
  return undefined;
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}
