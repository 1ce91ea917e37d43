import { AsyncLocalStorage } from 'node:async_hooks';
import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import t from 'tap';
import { gather } from './gather.ts';

t.test('what is asked for during a run goes into the next one, up to the most', async (t) => {
  const runs: number[][] = [];
  const gates: (() => void)[] = [];
  const ask = gather(async (items: readonly number[]) => {
    runs.push([...items]);
    await new Promise<void>((resolve) => gates.push(resolve));
    return items.map((item) => item * 10);
  }, 3);

  const first = [ask(1), ask(2)];
  await nextTurn();
  await nextTurn();
  const rest = [3, 4, 5, 6].map(ask);
  while (gates.length < 3) {
    gates.at(-1)?.();
    await nextTurn();
  }
  gates.at(-1)?.();
  t.strictSame(await Promise.all([...first, ...rest]), [10, 20, 30, 40, 50, 60]);
  t.strictSame(runs, [[1, 2], [3, 4, 5], [6]]);
});

t.test('a run that fails fails for its own callers alone, and a part for one of them', async (t) => {
  const ask = gather(async (items: readonly string[]) => {
    if (items.includes('all')) throw new Error('all');
    return items.map((item) => (item === 'one' ? Promise.reject(new Error('one')) : item));
  });
  const outcomes = await Promise.allSettled(['all', 'a'].map(ask));
  t.match(outcomes, [{ reason: { message: 'all' } }, { reason: { message: 'all' } }]);
  t.match(await Promise.allSettled(['one', 'b'].map(ask)), [{ reason: { message: 'one' } }, { value: 'b' }]);
});

t.test('a run that never ends holds up the next one for a moment only', async (t) => {
  const ask = gather((items: readonly string[]) =>
    items.includes('lost') ? new Promise<string[]>(() => undefined) : Promise.resolve(items),
  );
  void ask('lost');
  await nextTurn();
  await nextTurn();
  t.equal(await ask('next'), 'next');
});

t.test('a run belongs to none of its callers', async (t) => {
  const scope = new AsyncLocalStorage<string>();
  const ask = gather(async (items: readonly null[]) => items.map(() => scope.getStore()));
  t.equal(await scope.run('caller', () => ask(null)), undefined);
});

t.test('each caller gets its own result once, however they arrive', (t) =>
  fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 60 }), async (pauses) => {
      const asked: number[] = [];
      const ask = gather(async (items: readonly number[]) => {
        asked.push(...items);
        await nextTurn();
        return items;
      }, 7);
      const results: Promise<number>[] = [];
      for (const [item, pause] of pauses.entries()) {
        results.push(ask(item));
        for (let n = 0; n < pause; n++) await nextTurn();
      }
      const all = [...pauses.keys()];
      t.strictSame(await Promise.all(results), all);
      t.strictSame(asked, all, 'in the order of the callers');
    }),
  ),
);
