import t, { type Test } from 'tap';
import { CONSISTENT_READ_MS } from '#shared/notification/fan-out.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { readConsistently } from './inbox.ts';

const mongo = await openTestMongo(t);

/** Returns a read that is paused for `pauseMs` in each of its first `rounds` calls. */
function pausedRead(t: Test, rounds: number, pauseMs: number) {
  const { now } = performance;
  let paused = 0;
  let reads = 0;
  performance.now = () => now.call(performance) + paused;
  t.teardown(() => {
    performance.now = now;
  });
  return async () => {
    reads += 1;
    if (reads <= rounds) paused += pauseMs;
    return reads;
  };
}

t.test('a reader that is paused between its queries repeats them', async (t) => {
  t.equal(await readConsistently(mongo, pausedRead(t, 1, CONSISTENT_READ_MS)), 2);
});

t.test('a reader that is paused in every round fails', async (t) => {
  await t.rejects(readConsistently(mongo, pausedRead(t, 10, CONSISTENT_READ_MS)), /took too long/);
});

t.test('a reader ignores a pause that is too short for a row to move', async (t) => {
  t.equal(await readConsistently(mongo, pausedRead(t, 1, CONSISTENT_READ_MS / 2)), 1);
});
