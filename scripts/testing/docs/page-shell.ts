import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { Readable, Writable } from 'node:stream';

/** One bash in which the examples of a page run, one after the other, as in the terminal of a reader. */
export interface PageShell {
  /** Runs one block and returns what it prints. @throws Error with the output if a command of it fails */
  run(script: string, name: string): Promise<string>;
  close(): Promise<void>;
}

const ROOT = path.resolve(import.meta.dirname, '../../..');
/** Address of the cluster in every page. */
const PAGE_ORIGIN = 'http://127.0.0.1:3000';
/** Value of $RANDOM in every example, so that a page shows the names that a run makes. */
const RANDOM = 20260;
/** Functions and variables last over the blocks. `curl --max-time` ends with 28, and a pipe that `head` closes with 23. */
const DRIVER = `
set -euo pipefail
unset RANDOM
RANDOM=${RANDOM}
curl() {
  local code=0
  command curl "$@" || code=$?
  [ $code -eq 0 ] || [ $code -eq 23 ] || [ $code -eq 28 ] || return $code
}
while IFS= read -r block; do
  source "$block" < /dev/null > "$block.out"
  echo done >&3
done
`;

/** Starts bash in a new folder that holds the project's examples. Blocks call `origin` where they name the address of the cluster. */
export function openPageShell(origin: string): PageShell {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'examhall-docs-'));
  const [work, files] = [path.join(folder, 'work'), path.join(folder, 'files')];
  for (const one of [work, files]) mkdirSync(one);
  symlinkSync(path.join(ROOT, 'examples'), path.join(work, 'examples'));
  const child = spawn('bash', ['-c', DRIVER], {
    cwd: work,
    env: { PATH: `${path.dirname(process.execPath)}:${process.env.PATH}`, HOME: folder, LANG: 'C.UTF-8' },
    stdio: ['pipe', 'ignore', 'pipe', 'pipe'],
  });
  const ended = once(child, 'close');
  const [input, , errorOutput, done] = child.stdio as unknown as [Writable, null, Readable, Readable];
  let errors = '';
  errorOutput.setEncoding('utf8').on('data', (text: string) => (errors += text));
  // A failed block ends bash, and the next one finds the pipe closed.
  input.on('error', () => undefined);
  const atExit = () => {
    child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  };
  process.once('exit', atExit);

  return {
    async run(script, name) {
      const file = path.join(folder, name.replaceAll(/\W+/g, '-'));
      writeFileSync(file, script.replaceAll(PAGE_ORIGIN, origin).replaceAll('/tmp/', `${files}/`));
      errors = '';
      const isDone = once(done, 'data');
      input.write(`${file}\n`);
      const first = await Promise.race([isDone.then(() => 'done'), ended.then(() => 'ended')]);
      const output = readFileSync(`${file}.out`, 'utf8');
      if (first === 'ended') throw new Error(`${name} failed:\n${errors}${output}`);
      return output;
    },
    async close() {
      input.end();
      child.kill('SIGKILL');
      await ended;
      process.off('exit', atExit);
      rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}
