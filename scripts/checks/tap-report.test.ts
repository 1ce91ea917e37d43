import t from 'tap';
import { readTotals, slowestFiles } from './tap-report.ts';

t.test('reads the totals of the last summary', async (t) => {
  const output =
    ' PASS  a.test.ts 9 OK 3s\n# { total: 9, pass: 9 }\n\n# { total: 4, pass: 2, fail: 1, skip: 1 }\n# time=4ms\n';
  t.strictSame(readTotals(output), { passed: 2, failed: 1 });
});

t.test('counts nothing in a run without a summary', async (t) => {
  t.strictSame(readTotals(' PASS  a.test.ts 9 OK 3s\n'), { passed: 0, failed: 0 });
});

t.test('reads a summary without failures', async (t) => {
  t.strictSame(readTotals('# { total: 4, pass: 4 }\n'), { passed: 4, failed: 0 });
});

t.test('lists the slow files, longest first', async (t) => {
  const root = t.testdir({
    '.tap': {
      'test-results': {
        'slow.test.ts.tap': '# time=1ms\n1..1\n# time=3100.5ms\n',
        'slower.test.ts.tap': '# time=9000ms\n',
        'fast.test.ts.tap': '# time=20ms\n',
        'killed.test.ts.tap': 'TAP version 14\n',
      },
    },
  });
  const files = ['slow.test.ts', 'fast.test.ts', 'killed.test.ts', 'slower.test.ts', 'unknown.test.ts'];
  t.strictSame(slowestFiles(root, files, 1_000), [
    { file: 'slower.test.ts', durationMs: 9_000 },
    { file: 'slow.test.ts', durationMs: 3_100.5 },
  ]);
});
