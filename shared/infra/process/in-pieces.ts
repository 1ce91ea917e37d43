import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Pieces } from '#shared/kernel/pieces.ts';

/** Time (ms) of uninterrupted work after which the event loop serves others: a fifth of what one request may hold it up. */
const PIECE_MS = 10;

/**
 * Does the work, and lets the event loop serve others whenever PIECE_MS have passed. Returns the result itself if the work ends before,
 * as that of a small request does, and otherwise a promise of it. `clock`: ms that never decrease; for tests.
 * @throws what the work throws, then or by the promise
 */
export function inPieces<Result>(work: Pieces<Result>, clock = () => performance.now()): Result | Promise<Result> {
  const step = advance(work, clock);
  return step.done === true ? step.value : later(work, clock);
}

async function later<Result>(work: Pieces<Result>, clock: () => number): Promise<Result> {
  for (;;) {
    await nextTurn();
    const step = advance(work, clock);
    if (step.done === true) return step.value;
  }
}

/** Takes steps until the work ends or its time is over. */
function advance<Result>(work: Pieces<Result>, clock: () => number): IteratorResult<void, Result> {
  const endsAt = clock() + PIECE_MS;
  for (;;) {
    const step = work.next();
    if (step.done === true || clock() >= endsAt) return step;
  }
}
