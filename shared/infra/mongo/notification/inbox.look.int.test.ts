import t, { type Test } from 'tap';
import { LOOK_MS } from '#shared/notification/fan-out.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { look } from './inbox.ts';

const mongo = await openTestMongo(t);

/** A read during which the process stands still for so long, at each of its first so many rounds. */
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

t.test('who was paused between two looks looks again', async (t) => {
  t.equal(await look(mongo, pausedRead(t, 1, LOOK_MS)), 2);
});

t.test('looks that never belong together are no answer', async (t) => {
  await t.rejects(look(mongo, pausedRead(t, 10, LOOK_MS)), /took too long/);
});

t.test('a pause that no row can move in is none', async (t) => {
  t.equal(await look(mongo, pausedRead(t, 1, LOOK_MS / 2)), 1);
});
