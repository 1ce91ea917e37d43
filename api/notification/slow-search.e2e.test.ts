import t from 'tap';
import { startThrowAwayServices } from '#scripts/services/throw-away.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';

/** Error code of MongoDB for a query that exceeded its `maxTimeMS`. */
const MAX_TIME_EXPIRED = 50;

t.test(
  'a search that exceeds the time limit of MongoDB is answered 503 with a Retry-After, not as a fault of ours',
  async (t) => {
    const { mongodb, close } = await startThrowAwayServices({ redis: false });
    if (mongodb === undefined) throw new Error('no MongoDB to slow down');
    t.teardown(close);
    const admin = (await openTestMongo(t, { url: mongodb.url })).client.db('admin');
    const cluster = await startCluster(t, { inside: true, workers: [], env: { MONGODB_URL: mongodb.url } });
    const headers = { 'x-actor-id': 'an', 'x-actor-role': 'STUDENT' };
    const search = () => cluster.request('GET', '/v1/notifications?q=thi', { headers });

    const data = { failCommands: ['find', 'aggregate'], errorCode: MAX_TIME_EXPIRED };
    await admin.command({ configureFailPoint: 'failCommand', mode: 'alwaysOn', data });
    const slow = await search();
    await admin.command({ configureFailPoint: 'failCommand', mode: 'off' });
    t.match(slow, { status: 503, json: { success: false, code: 'UNAVAILABLE' }, headers: { 'retry-after': /^\d+$/ } });
    t.match(await search(), { status: 200, data: { total: 0 } });
  },
);
