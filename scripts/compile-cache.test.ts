import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';

const run = promisify(execFile);
const { NODE_OPTIONS: _options, NODE_V8_COVERAGE: _coverage, ...inherited } = process.env;
/** Names no cache, so that the processes use their own folder and not the one of the tests. */
const env = { ...inherited, NODE_COMPILE_CACHE: '' };

/** Sets up a checkout whose only module prints `text` and how often Node has stripped types in its process. */
function checkout(t: Test) {
  const root = mkdtempSync(path.join(os.tmpdir(), 'examhall-cache-'));
  t.teardown(() => rmSync(root, { recursive: true, force: true }));
  cpSync(path.join(import.meta.dirname, '../compile-cache.mjs'), path.join(root, 'compile-cache.mjs'));
  writeFileSync(path.join(root, 'package.json'), '{ "type": "module" }');
  const write = (text: string) =>
    writeFileSync(
      path.join(root, 'main.ts'),
      `const text: string = '${text}';
const isStripped = process.moduleLoadList.includes('NativeModule internal/deps/amaro/dist/index');
console.log(text, isStripped ? 'stripped' : 'cached');`,
    );
  write('one');
  async function start(cwd = root): Promise<string> {
    const { stdout } = await run(process.execPath, ['--import', './compile-cache.mjs', 'main.ts'], { cwd, env });
    return stdout.trim();
  }
  return { root, write, start };
}

t.test('the second start reads the compiled modules, and a changed source is compiled again', async (t) => {
  const { write, start } = checkout(t);
  t.equal(await start(), 'one stripped');
  t.equal(await start(), 'one cached');
  write('two');
  t.equal(await start(), 'two stripped');
  t.equal(await start(), 'two cached');
});

t.test('the cache is valid in the folder to which an image moves it', async (t) => {
  const { root, start } = checkout(t);
  await start();
  const moved = `${root}-moved`;
  renameSync(root, moved);
  t.teardown(() => rmSync(moved, { recursive: true, force: true }));
  t.equal(await start(moved), 'one cached');
});

t.test('processes that start at once share the cache', async (t) => {
  const { start } = checkout(t);
  for (const line of await Promise.all(Array.from({ length: 6 }, () => start()))) t.match(line, /^one /);
  t.equal(await start(), 'one cached');
});

t.test('a process runs without the cache if its folder cannot be written, and with damaged entries', async (t) => {
  const closed = checkout(t);
  mkdirSync(path.join(closed.root, 'node_modules'));
  writeFileSync(path.join(closed.root, 'node_modules/.cache'), 'a file where the folder would be');
  t.equal(await closed.start(), 'one stripped');
  t.equal(await closed.start(), 'one stripped');

  const damaged = checkout(t);
  await damaged.start();
  const [folder = ''] = readdirSync(path.join(damaged.root, 'node_modules/.cache/compiled'));
  const entries = path.join(damaged.root, 'node_modules/.cache/compiled', folder);
  for (const entry of readdirSync(entries)) writeFileSync(path.join(entries, entry), 'damaged');
  t.equal(await damaged.start(), 'one stripped');
});
