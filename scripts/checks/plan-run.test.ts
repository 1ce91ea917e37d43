import t from 'tap';
import { planRun } from './plan-run.ts';
import { openEstimate, openRunDisplay } from './run-display.ts';

const DURATIONS: Record<string, number> = { 'a.test.ts': 5, 'b.e2e.test.ts': 90, 'c.int.test.ts': 40, 'd.test.ts': 60 };
const FILES = Object.keys(DURATIONS);
const expected = (file: string) => DURATIONS[file] ?? 1;

t.test('a run starts with its longest files', async (t) => {
  t.strictSame(planRun(FILES, { expected }), ['b.e2e.test.ts', 'd.test.ts', 'c.int.test.ts', 'a.test.ts']);
});

t.test('pure files share a process, unless their source uses the process itself', async (t) => {
  const sources: Record<string, string> = { 'a.test.ts': 't.equal(1, 1)', 'd.test.ts': 't.ok(true)' };
  const own = ['process.env.A', "import nock from 'nock'", 't.testdir({})', 'globalThis.fetch'];
  for (const [index, source] of own.entries()) sources[`own${index}.test.ts`] = source;
  const plan = planRun([...FILES, ...own.map((_, index) => `own${index}.test.ts`)], { expected }, (file) => {
    return sources[file] ?? '';
  });
  t.strictSame(plan.slice(0, 3), ['b.e2e.test.ts', 'a.test.ts,d.test.ts', 'c.int.test.ts']);
  t.strictSame(
    plan.slice(3),
    own.map((_, index) => `own${index}.test.ts`),
  );
});

t.test('files with stores share a process among themselves, unless they are long', async (t) => {
  const files = ['a.test.ts', 'b.test.ts', 'c.int.test.ts', 'd.int.test.ts', 'long.int.test.ts', 'e.e2e.test.ts'];
  const times: Record<string, number> = { 'long.int.test.ts': 20_000, 'e.e2e.test.ts': 9_000, 'a.test.ts': 100 };
  const plan = planRun(files, { expected: (file) => times[file] ?? 10 }, () => "import '#testing/dying-process.ts'");
  t.strictSame(plan, ['long.int.test.ts', 'e.e2e.test.ts', 'a.test.ts,b.test.ts', 'c.int.test.ts,d.int.test.ts']);
});

t.test('a cluster inside its test shares a process, and a cluster of processes does not', async (t) => {
  const sources: Record<string, string> = {
    'a.e2e.test.ts': 'startCluster(t, { inside: true })',
    'b.e2e.test.ts': 'startCluster(t, {})',
    'c.int.test.ts': 'openTestMongo(t)',
  };
  const plan = planRun(Object.keys(sources), { expected: () => 1 }, (file) => sources[file] ?? '');
  t.strictSame([...plan].sort(), ['a.e2e.test.ts,c.int.test.ts', 'b.e2e.test.ts']);
});

t.test('no process gets more than sixteen pure files or eight files with stores', async (t) => {
  for (const [kind, wanted] of [
    ['test.ts', [16, 16, 8]],
    ['int.test.ts', [8, 8, 8, 8, 8]],
  ] as const) {
    const many = Array.from({ length: 40 }, (_, index) => `${index}.${kind}`);
    const sizes = planRun(many, { expected: () => 1 }, () => '').map((item) => item.split(',').length);
    t.strictSame(sizes, wanted);
  }
});

t.test('the estimate follows the stored durations at first, then the pace of the run', async (t) => {
  const estimate = openEstimate({ files: FILES, lanes: 3, expected });
  t.equal(estimate.leftMs(0), 65);
  t.equal(estimate.share(), 0);
  estimate.finish('b.e2e.test.ts');
  t.equal(estimate.leftMs(285), 105, '90 of 195, and half of the other 105, took 285, so the other half takes 105');
  for (const file of FILES) estimate.finish(file);
  t.equal(estimate.leftMs(400), 0);
  t.equal(estimate.share(), 1);
});

t.test('the display redraws one line on a terminal', async (t) => {
  const written: string[] = [];
  const stream = { isTTY: true, write: (text: string) => written.push(text) > 0 } as const;
  const display = openRunDisplay({ files: FILES, lanes: 3, expected }, stream);
  display.line('FAIL a.test.ts');
  display.finished({ file: 'b.e2e.test.ts', durationMs: 90 });
  display.end();
  const shown = written.join('').replaceAll('\r\u001b[2K', '<clear>');
  t.match(shown, /<clear> {2}░{24} 0\/4 files, 0:00 elapsed, about 0:00 left/);
  t.match(shown, /<clear>FAIL a\.test\.ts\n/);
  t.match(shown, /█+░+ 1\/4 files/);
  t.equal(shown.split('\n').length, 2, 'only the failure ends a line');
});

t.test('without a terminal the display prints plain lines', async (t) => {
  const written: string[] = [];
  const display = openRunDisplay(
    { files: FILES, lanes: 3, expected },
    { isTTY: false, write: (text: string) => written.push(text) > 0 },
  );
  display.line('FAIL a.test.ts');
  display.finished({ file: 'a.test.ts', durationMs: 5 });
  display.end();
  t.strictSame(written, ['FAIL a.test.ts\n']);
});
