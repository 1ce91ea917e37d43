import { mock } from 'node:test';
import t from 'tap';
import { isTooSlow, openDeadlines } from './deadlines.ts';

const PACE = { limitMs: 20_000, graceMs: 10_000, leastRate: 1_024 };

t.test('a body is too slow below the least rate after its grace, and beyond its time limit', async (t) => {
  for (const [received, ageMs, wanted] of [
    [0, 9_999, false],
    [0, 10_001, true],
    [1, 10_001, true],
    [1_024, 11_000, false],
    [1_023, 11_000, true],
    [10_240, 19_999, false],
    [1 << 20, 20_000, true],
  ] as const) {
    t.equal(isTooSlow(received, ageMs, PACE), wanted, `${received} bytes after ${ageMs} ms`);
  }
  const perMs = 8_192 / 17_000;
  const endedAt = Array.from({ length: 17_000 }, (_, ms) => ms).filter((ms) => isTooSlow(perMs * ms, ms, PACE));
  t.same(endedAt, [], 'an answer of 8 KiB may take 17 s');
});

t.test('the deadlines end slow bodies, and only those', async (t) => {
  mock.timers.enable({ apis: ['setInterval'] });
  t.teardown(() => mock.timers.reset());
  let now = 0;
  const late: string[] = [];
  const deadlines = openDeadlines(PACE, () => now);
  const pass = (ms: number) => {
    for (let left = ms; left > 0; left -= 500) {
      now += 500;
      mock.timers.tick(500);
    }
  };
  const slow = deadlines.add(() => late.push('slow'));
  const fast = deadlines.add(() => late.push('fast'));
  const done = deadlines.add(() => late.push('done'));
  slow.received = 100;
  fast.received = 100_000;
  deadlines.remove(done);
  pass(10_000);
  t.same(late, []);
  pass(500);
  t.same(late, ['slow']);
  pass(9_000);
  deadlines.add(() => late.push('young'));
  pass(500);
  t.same(late, ['slow', 'fast'], 'the time limit ends a fast body too');

  now += 60_000;
  mock.timers.tick(500);
  t.same(late, ['slow', 'fast'], 'a pause of the process does not count');
  pass(11_000);
  t.same(late, ['slow', 'fast', 'young']);
});
