import t from 'tap';
import { openFairGate } from './fair-gate.ts';

t.test('addresses take turns, and a flood of one waits for itself', async (t) => {
  const gate = openFairGate(2);
  const begun: string[] = [];
  const ends: (() => void)[] = [];
  const work = (name: string) => () => {
    begun.push(name);
    return new Promise<void>((end) => ends.push(end));
  };
  const done = ['a1', 'a2', 'a3', 'a4', 'a5'].map((name) => gate('a', work(name)));
  done.push(gate('b', work('b1')), gate('b', work('b2')), gate('c', work('c1')));
  await new Promise(setImmediate);
  t.same(begun, ['a1', 'a2']);
  for (let next = 0; next < done.length; next += 1) {
    ends[next]?.();
    await new Promise(setImmediate);
  }
  t.same(begun, ['a1', 'a2', 'a3', 'b1', 'c1', 'a4', 'b2', 'a5']);
  await Promise.all(done);
});

t.test('work that fails lets the next piece in', async (t) => {
  const gate = openFairGate(1);
  const failed = gate('a', () => Promise.reject(new Error('no memory')));
  const next = gate('b', async () => 'next');
  await t.rejects(failed, /no memory/);
  t.equal(await next, 'next');
  t.equal(await gate('a', async () => 'last'), 'last');
});
