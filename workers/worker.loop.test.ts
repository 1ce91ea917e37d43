import { mock } from 'node:test';
import t from 'tap';
import { startLoop } from './loop.ts';

const EVERY_MS = 10_000;

/** Lets the mocked time pass, and the promises that it settles. */
async function pass(ms: number): Promise<void> {
  mock.timers.tick(ms);
  for (let turn = 0; turn < 5; turn++) await Promise.resolve();
}

t.beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }));
t.afterEach(() => mock.timers.reset());

t.test('the first turn runs at once, the second after the phase, and the others in the rhythm', async (t) => {
  let turns = 0;
  const loop = startLoop({ everyMs: EVERY_MS, phase: 0.5 }, async () => {
    turns += 1;
  });
  await pass(0);
  t.equal(turns, 1);
  await pass(EVERY_MS * 0.4);
  t.equal(turns, 1);
  await pass(EVERY_MS * 0.1);
  t.equal(turns, 2);
  await pass(EVERY_MS * 0.9);
  t.equal(turns, 2);
  await pass(EVERY_MS * 0.1);
  t.equal(turns, 3);
  loop.stop();
  await pass(EVERY_MS * 2);
  t.equal(turns, 3);
});

t.test('a turn that is in progress delays the next one, and a stop during it ends the loop', async (t) => {
  const { promise, resolve } = Promise.withResolvers<void>();
  let turns = 0;
  const loop = startLoop({ everyMs: EVERY_MS, phase: 0 }, () => {
    turns += 1;
    return promise;
  });
  await pass(0);
  await pass(EVERY_MS * 3);
  t.equal(turns, 1);
  loop.stop();
  resolve();
  await pass(EVERY_MS);
  t.equal(turns, 1);
});
