import t from 'tap';
import { openYielding, TURN_MS, YIELD_MS } from './yielding.ts';

/** A worker whose time passes by its waits alone. */
function opened(dueUntil: number) {
  const now = { ms: 0 };
  const seen = { looks: 0, draining: false };
  const yields = openYielding({
    isDue: async () => {
      seen.looks += 1;
      return now.ms < dueUntil;
    },
    isDraining: () => seen.draining,
    clock: () => now.ms,
    wait: async (ms) => {
      now.ms += ms;
    },
  });
  return { yields, now, seen };
}

t.test('a run begins at once if the other queue has nothing to do, and looks once for many runs', async (t) => {
  const { yields, now, seen } = opened(0);
  await Promise.all(Array.from({ length: 50 }, () => yields()));
  t.strictSame([now.ms, seen.looks], [0, 1]);
  await yields();
  t.equal(seen.looks, 1, 'nor does the next run look again at once');
});

t.test('a run waits until the other queue has nothing to do', async (t) => {
  const { yields, now } = opened(750);
  await yields();
  t.equal(now.ms, 750);
});

t.test('a queue that is never empty leaves the worker a fifth of the time', async (t) => {
  const { yields, now } = opened(Number.POSITIVE_INFINITY);
  let begun = 0;
  while (now.ms < 30_000) {
    await yields();
    begun += 1;
    now.ms += 10;
  }
  t.ok(begun * 10 >= 30_000 * (TURN_MS / (TURN_MS + YIELD_MS)) - TURN_MS, `${begun} runs of 10 ms`);
  t.ok(begun * 10 <= 30_000 * (TURN_MS / (TURN_MS + YIELD_MS)) + TURN_MS, 'and no more, while others wait');
});

t.test('a worker that drains waits no longer', async (t) => {
  const { yields, now, seen } = opened(Number.POSITIVE_INFINITY);
  seen.draining = true;
  await yields();
  t.equal(now.ms, 0);
});
