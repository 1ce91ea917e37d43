import t from 'tap';
import type { Pieces } from '#shared/kernel/pieces.ts';
import { inPieces } from './in-pieces.ts';

/** Work of some pieces, each of which takes the time `ms`. */
function* work(pieces: number, ms: number): Pieces<string> {
  for (let piece = 0; piece < pieces; piece += 1) {
    for (const endsAt = performance.now() + ms; performance.now() < endsAt; );
    yield;
  }
  return 'done';
}

t.test('short work ends at once, without a turn of the event loop', async (t) => {
  t.equal(inPieces(work(3, 0)), 'done');
});

t.test('long work lets the event loop serve others between its pieces', async (t) => {
  let turns = 0;
  let isOver = false;
  const count = () => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  const running = inPieces(work(10, 12));
  t.type(running, Promise);
  setImmediate(count);
  t.equal(await running, 'done');
  isOver = true;
  t.ok(turns >= 8, `${turns} turns`);
});

t.test('what the work throws rejects the promise', async (t) => {
  function* failing(): Pieces<never> {
    yield* work(2, 12);
    throw new Error('broken');
  }
  await t.rejects(async () => inPieces(failing()), { message: 'broken' });
});
