import t from 'tap';
import type { Pieces } from '#shared/kernel/pieces.ts';
import { inPieces } from './in-pieces.ts';

/** Returns work of some pieces, each of which takes `ms` by the clock of the test, and that clock. */
function timedWork(pieces: number, ms: number) {
  let now = 0;
  function* work(): Pieces<string> {
    for (let piece = 0; piece < pieces; piece += 1) {
      now += ms;
      yield;
    }
    return 'done';
  }
  return { work: work(), clock: () => now };
}

t.test('work of less than ten milliseconds ends at once, without a turn of the event loop', async (t) => {
  const { work, clock } = timedWork(9, 1);
  t.equal(inPieces(work, clock), 'done');
});

t.test('long work lets the event loop serve others every ten milliseconds', async (t) => {
  let turns = 0;
  let isOver = false;
  const count = () => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const { work, clock } = timedWork(100, 1);
  const running = inPieces(work, clock);
  t.type(running, Promise);
  t.equal(await running, 'done');
  isOver = true;
  t.equal(turns, 10);
});

t.test('what the work throws rejects the promise', async (t) => {
  const { work, clock } = timedWork(20, 1);
  function* failing(): Pieces<never> {
    yield* work;
    throw new Error('broken');
  }
  const running = inPieces(failing(), clock);
  t.type(running, Promise);
  await t.rejects(async () => running, { message: 'broken' });
});
