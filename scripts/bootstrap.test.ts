import { execFile, spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { openScratchFolder } from '#testing/scratch-folder.ts';

const PACKAGE = `node_modules/node-${process.platform}-${process.arch}`;
const FOLDER = '.cache/node';
const PINNED = '24.21.0';

/**
 * Sets up a checkout with an installed Node, which is a script that prints its arguments. `run` starts the bootstrap on a Node that
 * reports the version `own`.
 */
function checkout(t: Test, installed: { version?: string; runs?: boolean } | null = {}) {
  const { root, put } = openScratchFolder(t);
  const lockOf = (version: string | undefined) =>
    JSON.stringify({
      packages: { '': {}, ...(version === undefined ? {} : { [PACKAGE]: { version, optional: true } }) },
    });
  cpSync(path.join(import.meta.dirname, 'bootstrap.mjs'), path.join(root, 'scripts/bootstrap.mjs'), {
    recursive: true,
  });
  put('.nvmrc', `${PINNED}\n`);
  put('scripts/hello.mjs', "console.log('own', process.argv[2]);");
  put('package-lock.json', lockOf(undefined));
  put('node_modules/.package-lock.json', lockOf(undefined));
  put('scripts/start/node/package.json', '{}');
  put('scripts/start/node/.npmrc', 'ignore-scripts=true');
  put('scripts/start/node/package-lock.json', lockOf(installed === null ? undefined : PINNED));
  put(`${FOLDER}/node_modules/.package-lock.json`, lockOf(installed?.version ?? PINNED));
  const packaged = (runs: boolean) => `#!/bin/sh\n${runs ? `[ "$1" = --version ] || echo "packaged $2"` : 'exit 1'}\n`;
  if (installed !== null) put(`${FOLDER}/${PACKAGE}/bin/node`, packaged(installed.runs ?? true));
  const npm = put(
    'npm-cli.js',
    `const { mkdirSync, writeFileSync } = require('node:fs');
mkdirSync('node_modules', { recursive: true });
writeFileSync('npm-arguments', process.argv.slice(2).join(' '));
writeFileSync('node_modules/.package-lock.json', ${JSON.stringify(lockOf(PINNED))});`,
  );
  const run = (own: string) => {
    const double = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${own}' } })`;
    const args = ['--import', `data:text/javascript,${encodeURIComponent(double)}`, 'scripts/bootstrap.mjs'];
    const env = { PATH: '/usr/bin:/bin', npm_execpath: npm };
    return spawnSync(process.execPath, [...args, 'scripts/hello.mjs', 'there'], { cwd: root, env, encoding: 'utf8' });
  };
  return { root, run };
}

t.test(
  "the bootstrap runs the machine's own Node if it is of the pinned major and not older than the pinned minor",
  async (t) => {
    const { run } = checkout(t);
    for (const own of [PINNED, '24.21.9', '24.30.0']) t.equal(run(own).stdout, 'own there\n', own);
  },
);

t.test('the bootstrap runs the packaged Node if the own one is older or of another major', async (t) => {
  const { run } = checkout(t);
  for (const own of ['20.20.2', '22.99.0', '24.20.9', '26.0.0']) t.equal(run(own).stdout, 'packaged there\n', own);
});

t.test('the bootstrap falls back to an own Node 24 or later if no packaged Node runs', async (t) => {
  for (const installed of [null, { runs: false }]) {
    const { run } = checkout(t, installed);
    for (const own of ['24.5.0', '26.0.0']) t.equal(run(own).stdout, 'own there\n', own);
  }
});

t.test('the bootstrap refuses an older Node without a packaged one and names the pinned version', async (t) => {
  for (const [installed, reason] of [
    [null, /No package has a binary for/],
    [{ runs: false }, /bin\/node does not run on this machine/],
  ] as const) {
    const { status, stdout, stderr } = checkout(t, installed).run('20.20.2');
    t.equal(status, 1);
    t.equal(stdout, '');
    t.match(stderr, reason);
    t.match(stderr, 'Node 24 is required, and this is');
    t.match(stderr, `Run this command with Node ${PINNED}`);
  }
});

t.test(
  'the bootstrap installs the packaged Node if it is needed and of another version, and nothing else',
  async (t) => {
    const { root, run } = checkout(t, { version: '24.1.0' });
    t.equal(run(PINNED).stdout, 'own there\n');
    t.notOk(existsSync(path.join(root, FOLDER, 'npm-arguments')), 'the own Node needs no installation');
    const { stdout, stderr } = run('20.20.2');
    t.equal(stdout, 'packaged there\n');
    t.match(stderr, 'installing the locked packages (npm ci)');
    t.match(readFileSync(path.join(root, FOLDER, 'npm-arguments'), 'utf8'), /^ci /);
    t.equal(readFileSync(path.join(root, FOLDER, '.npmrc'), 'utf8'), 'ignore-scripts=true');
    t.notOk(existsSync(path.join(root, 'npm-arguments')));
  },
);

t.test('the bootstrap installs the packages beside the packaged Node', async (t) => {
  const { root, run } = checkout(t);
  rmSync(path.join(root, 'node_modules'), { recursive: true });
  rmSync(path.join(root, FOLDER, 'node_modules/.package-lock.json'));
  t.equal(run('20.20.2').stdout, 'packaged there\n');
  t.match(readFileSync(path.join(root, 'npm-arguments'), 'utf8'), /^ci .* --include=dev$/);
  t.match(readFileSync(path.join(root, FOLDER, 'npm-arguments'), 'utf8'), /^ci /);
});

t.test('the bootstrap installs no Node on a machine whose own Node fits', async (t) => {
  const { root, run } = checkout(t);
  rmSync(path.join(root, FOLDER), { recursive: true });
  t.equal(run(PINNED).stdout, 'own there\n');
  t.notOk(existsSync(path.join(root, FOLDER)));
});

t.test('the bootstrap links the chosen Node where npm has left no link or a dangling one', async (t) => {
  const { root, run } = checkout(t);
  const link = path.join(root, 'node_modules/.bin/node');
  run('20.20.2');
  t.equal(readlinkSync(link), path.join('../..', FOLDER, PACKAGE, 'bin/node'), 'fits a copy too');
  rmSync(link);
  symlinkSync('/nowhere/node', link);
  run(PINNED);
  t.equal(readlinkSync(link), process.execPath);
  run('20.20.2');
  t.equal(readlinkSync(link), process.execPath, 'a link that leads to a program stays');
});

const run = promisify(execFile);
const { NODE_OPTIONS: _options, NODE_V8_COVERAGE: _coverage, ...inherited } = process.env;
/** Names no cache, so that the processes use their own folder and not the one of the tests. */
const env = { ...inherited, NODE_COMPILE_CACHE: '' };

/** Sets up a checkout whose only module prints `text` and how often Node has stripped types in its process. */
function cacheCheckout(t: Test) {
  const { root, put } = openScratchFolder(t);
  cpSync(path.join(import.meta.dirname, '../compile-cache.mjs'), path.join(root, 'compile-cache.mjs'));
  put('package.json', '{ "type": "module" }');
  const write = (text: string) =>
    put(
      'main.ts',
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
  const { write, start } = cacheCheckout(t);
  t.equal(await start(), 'one stripped');
  t.equal(await start(), 'one cached');
  write('two');
  t.equal(await start(), 'two stripped');
  t.equal(await start(), 'two cached');
});

t.test('the cache is valid in the folder to which an image moves it', async (t) => {
  const { root, start } = cacheCheckout(t);
  await start();
  const moved = `${root}-moved`;
  renameSync(root, moved);
  t.teardown(() => rmSync(moved, { recursive: true, force: true }));
  t.equal(await start(moved), 'one cached');
});

t.test('processes that start at once share the cache', async (t) => {
  const { start } = cacheCheckout(t);
  for (const line of await Promise.all(Array.from({ length: 6 }, () => start()))) t.match(line, /^one /);
  t.equal(await start(), 'one cached');
});

t.test('a process runs without the cache if its folder cannot be written, and with damaged entries', async (t) => {
  const closed = cacheCheckout(t);
  mkdirSync(path.join(closed.root, 'node_modules'));
  writeFileSync(path.join(closed.root, 'node_modules/.cache'), 'a file where the folder would be');
  t.equal(await closed.start(), 'one stripped');
  t.equal(await closed.start(), 'one stripped');

  const damaged = cacheCheckout(t);
  await damaged.start();
  const [folder = ''] = readdirSync(path.join(damaged.root, 'node_modules/.cache/compiled'));
  const entries = path.join(damaged.root, 'node_modules/.cache/compiled', folder);
  for (const entry of readdirSync(entries)) writeFileSync(path.join(entries, entry), 'damaged');
  t.equal(await damaged.start(), 'one stripped');
});
