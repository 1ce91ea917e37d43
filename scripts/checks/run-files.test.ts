import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { createTapReport } from './tap-report.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');

/** Runs sources as test files in two lanes and returns the report. A list of sources shares one process. */
async function run(t: Test, items: readonly (string | readonly string[])[]) {
  // The files need the packages and the subpaths of the project, so they are inside it.
  const folder = `.cache/test-run-files-${process.pid}`;
  mkdirSync(path.join(ROOT, folder), { recursive: true });
  t.teardown(() => rmSync(path.join(ROOT, folder), { recursive: true, force: true }));
  let count = 0;
  const fileOf = (source: string) => {
    const file = `${folder}/f${++count}.test.ts`;
    writeFileSync(path.join(ROOT, file), source);
    return file;
  };
  const args = items.map((item) => [item].flat().map(fileOf).join(','));
  const child = spawn(process.execPath, ['scripts/checks/run-files.ts', '2', ...args], {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const [out, [code]] = await Promise.all([text(child.stdout), once(child, 'close')]);
  const said: string[] = [];
  const report = createTapReport((line) => said.push(line.replaceAll(`${folder}/`, '').replace(/\(\d.*s\)/, '(s)')));
  for (const line of out.split('\n')) report.read(line);
  return { code, said: said.join('\n'), totals: report.totals() };
}

const USES = "import t from 'tap';\n";
const GOOD = `${USES}t.test('good', async (t) => { t.equal(1, 1); t.ok(true); });`;
const BAD = `${USES}t.test('bad', async (t) => { t.equal(1, 2, 'one is two'); });`;

t.test('the runner reports each file, alone or in a shared process, and the totals of all', async (t) => {
  const { code, said, totals } = await run(t, [[GOOD, GOOD], GOOD]);
  t.equal(code, 0);
  t.strictSame(totals, { passed: 6, failed: 0 });
  for (const file of ['f1', 'f2', 'f3']) t.match(said, new RegExp(`ok +\\d/3 ${file}\\.test\\.ts \\(s\\)`));
});

t.test('a failure in a shared process is that of its file', async (t) => {
  const { code, said, totals } = await run(t, [[GOOD, BAD, GOOD]]);
  t.equal(code, 1);
  t.strictSame(totals, { passed: 4, failed: 1 });
  t.match(said, /^ok +1\/3 f1\.test\.ts/m);
  t.match(said, /^FAIL 2\/3 f2\.test\.ts[\s\S]*one is two/m);
  t.match(said, /^ok +3\/3 f3\.test\.ts/m);
});

t.test('a file of a shared process ends its tests and its teardown before the next file begins', async (t) => {
  const first = `${USES}import { setImmediate } from 'node:timers/promises';
    globalThis.log = [];
    t.teardown(() => log.push('closed first'));
    t.teardown(async () => { await setImmediate(); log.push('closed last'); });
    t.test('slow', async (t) => { await setImmediate(); log.push('tested'); t.ok(true); });`;
  const second = `${USES}const found = log.join();
    t.test('after it', async (t) => { t.equal(found, 'tested,closed last,closed first'); });`;
  const { code, totals } = await run(t, [[first, second]]);
  t.equal(code, 0);
  t.strictSame(totals, { passed: 2, failed: 0 });
});

t.test('a file that dies, throws or has no test fails', async (t) => {
  const dies = `${USES}t.test('dies', async (t) => { t.ok(true); process.kill(process.pid, 'SIGKILL'); });`;
  const { code, said, totals } = await run(t, [dies, "throw new Error('at once');", `${USES}`, [GOOD, USES]]);
  t.equal(code, 1);
  t.ok(totals.failed >= 3, `${totals.failed} failed`);
  t.match(said, /FAIL \d\/5 f1\.test\.ts[\s\S]*signal: SIGKILL/);
  for (const file of ['f1', 'f2', 'f3', 'f5']) t.match(said, new RegExp(`FAIL \\d/5 ${file}\\.test\\.ts`));
  t.match(said, /ok +\d\/5 f4\.test\.ts/);
});

t.test('an error that nothing catches fails its file', async (t) => {
  const timer = `${USES}t.test('timer', async (t) => {
      setImmediate(() => { throw new Error('of a timer'); });
      await new Promise(() => {});
    });`;
  const promise = `${USES}import { setImmediate } from 'node:timers/promises';
    t.test('promise', async (t) => { void Promise.reject(new Error('of a promise')); await setImmediate(); t.ok(true); });`;
  const { code, said, totals } = await run(t, [timer, promise, [GOOD, timer]]);
  t.equal(code, 1);
  t.equal(totals.failed, 3);
  for (const file of ['f1', 'f2', 'f4']) t.match(said, new RegExp(`FAIL \\d/4 ${file}\\.test\\.ts`));
  t.match(said, /ok +\d\/4 f3\.test\.ts/);
});
