import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

/** A temporary folder, which is deleted at the end of the test. */
export interface ScratchFolder {
  root: string;
  /** Writes a file that may be executed, and the folders above it. `name` is a path in the folder. Returns the whole path. */
  put(name: string, text: string): string;
}

export function openScratchFolder(t: { teardown(work: () => unknown): void }): ScratchFolder {
  const root = mkdtempSync(path.join(os.tmpdir(), 'examhall-test-'));
  t.teardown(() => rmSync(root, { recursive: true, force: true }));
  return {
    root,
    put(name, text) {
      const file = path.resolve(root, name);
      mkdirSync(path.dirname(file), { recursive: true });
      writeFileSync(file, text, { mode: 0o755 });
      return file;
    },
  };
}
