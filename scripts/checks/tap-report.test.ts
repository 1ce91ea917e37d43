import t from 'tap';
import { createTapReport } from './tap-report.ts';

const RUN = `TAP version 14
1..5
# Subtest: api/a.test.ts
    # Subtest: passes
        ok 1 - fine
        1..1
    ok 1 - passes # time=900.1ms
    # Subtest: fails
        not ok 1 - should be equal
          ---
          compare: ===
          ...
        1..1
    not ok 2 - fails # time=5ms
    1..2
    # { total: 9, pass: 9 }
    # time=905ms
not ok 1 - api/a.test.ts # time=1200.5ms
  ---
  command: node
  exitCode: 1
  signal: null
  ...
# Subtest: api/b c.test.ts
    ok 1 - two
    1..1
ok 2 - api/b c.test.ts # time=3400ms
ok 3 - api/c.test.ts # time=20.5ms

# Subtest: api/empty.test.ts
    1..0 # no tests found
ok 4 - api/empty.test.ts # SKIP no tests found

# Subtest: api/windows.test.ts
    1..0 # for Windows
ok 5 - api/windows.test.ts # SKIP for Windows

# { total: 5, pass: 2, fail: 1, skip: 2 }
# time=4000ms`;

function reportOf(run: string) {
  const said: string[] = [];
  const report = createTapReport((line) => said.push(line));
  for (const line of run.split('\n')) report.read(line);
  return { report, said };
}

t.test('the tap report prints a line for each file and the failures of failed files', async (t) => {
  t.strictSame(reportOf(RUN).said, [
    'FAIL 1/5 api/a.test.ts (1.2 s)',
    '# Subtest: api/a.test.ts',
    '    # Subtest: passes',
    '    # Subtest: fails',
    '        not ok 1 - should be equal',
    '          ---',
    '          compare: ===',
    '          ...',
    '    not ok 2 - fails # time=5ms',
    '    # { total: 9, pass: 9 }',
    '  exitCode: 1',
    'ok   2/5 api/b c.test.ts (3.4 s)',
    'ok   3/5 api/c.test.ts (0.0 s)',
    'FAIL 4/5 api/empty.test.ts (no tests found)',
    '# Subtest: api/empty.test.ts',
    'ok   5/5 api/windows.test.ts (for Windows)',
  ]);
});

t.test('the tap report returns the totals of the run, not of a file', async (t) => {
  t.strictSame(reportOf(RUN).report.totals(), { passed: 2, failed: 2 });
  t.strictSame(reportOf('# { total: 4, pass: 4 }').report.totals(), { passed: 4, failed: 0 });
});

t.test('the tap report counts only the failed files of a run without a summary', async (t) => {
  const cut = RUN.split('\n').slice(0, -3).join('\n');
  t.strictSame(reportOf(cut).report.totals(), { passed: 0, failed: 2 });
});

t.test('the tap report lists the slow files, longest first', async (t) => {
  const names = reportOf(RUN)
    .report.slowest(1_000)
    .map(({ file }) => file);
  t.strictSame(names, ['api/b c.test.ts', 'api/a.test.ts']);
});
