import { mock } from 'node:test';
import t, { type Test } from 'tap';
import { isTooSlow, openDeadlines } from './deadlines.ts';

/** The pace of a crowd: the least rate binds every body. */
const PACE = { limitMs: 20_000, graceMs: 10_000, leastRate: 1_024, crowd: 0 };

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
    t.equal(isTooSlow(received, ageMs, 1, PACE), wanted, `${received} bytes after ${ageMs} ms`);
  }
  const perMs = 8_192 / 17_000;
  const endedAt = Array.from({ length: 17_000 }, (_, ms) => ms).filter((ms) => isTooSlow(perMs * ms, ms, 1, PACE));
  t.same(endedAt, [], 'an answer of 8 KiB may take 17 s');
});

t.test('bodies that are no crowd have the whole time limit at any rate', async (t) => {
  const pace = { ...PACE, crowd: 32 };
  t.equal(isTooSlow(0, 19_999, 32, pace), false);
  t.equal(isTooSlow(0, 20_000, 32, pace), true);
  t.equal(isTooSlow(0, 19_999, 33, pace), true, 'one body more is a crowd');
});

/** Deadlines with a clock of the test. `pass` lets time pass in steps of a check. */
function openTimed(t: Test, crowd = PACE.crowd) {
  mock.timers.enable({ apis: ['setInterval'] });
  t.teardown(() => mock.timers.reset());
  const clock = { now: 0 };
  return {
    ...openDeadlines({ ...PACE, crowd }, () => clock.now),
    clock,
    pass(ms: number) {
      for (let left = ms; left > 0; left -= 500) {
        clock.now += 500;
        mock.timers.tick(500);
      }
    },
  };
}

t.test('the deadlines end slow bodies, and only those', async (t) => {
  const { add, remove, pass, clock } = openTimed(t);
  const late: string[] = [];
  const slow = add(() => late.push('slow'));
  const fast = add(() => late.push('fast'));
  const done = add(() => late.push('done'));
  slow.received = 100;
  fast.received = 100_000;
  remove(done);
  pass(10_000);
  t.same(late, []);
  pass(500);
  t.same(late, ['slow']);
  pass(9_000);
  add(() => late.push('young'));
  pass(500);
  t.same(late, ['slow', 'fast'], 'the time limit ends a fast body too');

  clock.now += 60_000;
  mock.timers.tick(500);
  t.same(late, ['slow', 'fast'], 'a pause of the process does not count');
  pass(11_000);
  t.same(late, ['slow', 'fast', 'young']);
});

t.test('slow bodies end, the oldest first, until the rest is no crowd', async (t) => {
  const { add, pass } = openTimed(t, 2);
  const late: string[] = [];
  for (const name of ['first', 'second', 'third', 'fourth']) add(() => late.push(name));
  pass(10_500);
  t.same(late, ['first', 'second']);
  pass(9_000);
  t.same(late, ['first', 'second']);
  pass(500);
  t.same(late, ['first', 'second', 'third', 'fourth'], 'the time limit ends the rest');
});

t.test('many slow bodies end in groups, with other work between them', async (t) => {
  const { add, pass } = openTimed(t);
  let late = 0;
  for (let n = 0; n < 100; n += 1) {
    add(() => {
      late += 1;
    });
  }
  pass(10_500);
  t.equal(late, 32);
  for (let group = 1; group < 4; group += 1) await new Promise(setImmediate);
  t.equal(late, 100);
});
