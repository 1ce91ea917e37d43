import t from 'tap';
import { liveWorkers } from '#infra/mongo/live-workers.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { until } from '#testing/until.ts';
import { startHeartbeat } from './heartbeat.ts';

t.test('the row of a worker shows whether the process connects to a router, if it knows', async (t) => {
  const mongo = await openTestMongo(t);
  const self = {
    actor: 'grading',
    queues: [],
    version: '1.0.0',
    slots: 8,
    busy: () => [],
    unanswering: () => [],
    heldLoop: () => null,
    ended: () => ({ settled: {}, failed: {}, died: {} }),
  };
  for (const router of [true, false, undefined]) {
    const heart = startHeartbeat(mongo, { ...self, workerId: `w-${router}`, router });
    await until('its row', async () => (await liveWorkers(mongo, Date.now())).length === 1);
    const [row] = await liveWorkers(mongo, Date.now());
    t.strictSame(row?.router, router);
    await heart.stop();
  }
});
