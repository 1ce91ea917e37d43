import t from 'tap';
import { freePort } from '#scripts/start/services/port.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { openMongoTap } from '#testing/stores/mongo-tap.ts';
import { requiredEnv } from '#testing/stores/open-test-mongo.ts';
import { untilSlowly } from '#testing/until.ts';

const tap = await openMongoTap(t, requiredEnv('MONGODB_URL'));
const port = await freePort();
await startCluster(t, {
  doors: 0,
  workers: ['grading'],
  envOf: { grading: { MONGODB_URL: tap.url, METRICS_PORT: String(port) } },
});
const get = (path: string) => fetch(`http://127.0.0.1:${port}${path}`);

/** Returns a check of the status of `/readyz`, and of what a scrape shows for MongoDB. */
const shows = (status: number, up: string) => async () => {
  const scrape = await (await get('/metrics')).text();
  return (await get('/readyz')).status === status && scrape.includes(`examhall_dependency_up{name="mongodb"} ${up}`);
};

t.test('a worker is unready while MongoDB does not answer, and ready again afterwards', async (t) => {
  await untilSlowly('the worker is ready', shows(200, '1'));
  tap.cut();
  await untilSlowly('the worker is unready', shows(503, '0'));
  t.equal((await get('/healthz')).status, 200, 'it is alive');
  tap.join();
  await untilSlowly('the worker is ready again', shows(200, '1'));
});
