import t from 'tap';
import { Stale } from '#infra/mongo/guarded-update.ts';
import { inSteps } from './steps.ts';

const { signal } = new AbortController();

/** Returns a step over `rows` rows that is stale if it would take more than `calm`, with the limits that it was given. */
function stepOver(rows: number, calm: () => number) {
  const limits: number[] = [];
  let left = rows;
  const step = async (limit: number) => {
    limits.push(limit);
    if (left === 0) return false;
    if (limit > calm()) throw new Stale('a row');
    left -= Math.min(limit, left);
    return true;
  };
  return { step, limits };
}

t.test('a step whose rows have changed is taken again with half of them, and the next ones grow again', async (t) => {
  let stale = 3;
  const { step, limits } = stepOver(250, () => (stale-- > 0 ? 0 : 100));
  await inSteps(signal, 100, step);
  t.strictSame(limits, [100, 50, 25, 13, 26, 52, 100, 100, 100]);
});

t.test('rows that change all the time are taken in steps that are small enough, one row at least', async (t) => {
  const { step, limits } = stepOver(5, () => 1);
  await inSteps(signal, 4, step);
  t.strictSame(limits, [4, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2], 'the last step finds no row');
});

t.test('another error and the end of the process end the walk', async (t) => {
  const { step, limits } = stepOver(200, () => 100);
  await t.rejects(
    inSteps(signal, 100, async () => Promise.reject(new Error('disk full'))),
    { message: 'disk full' },
  );
  const stopped = new AbortController();
  const walk = inSteps(stopped.signal, 100, (limit) => {
    stopped.abort(new Error('lease lost'));
    return step(limit);
  });
  await t.rejects(walk, { message: 'lease lost' });
  t.strictSame(limits, [100], 'no step begins after the abort');
});
