import t, { type Test } from 'tap';
import type { Mongo } from '#infra/mongo/connect.ts';
import { liveWorkers } from '#infra/mongo/live-workers.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { deliveryAttempts } from '#infra/mongo/notification/collections.ts';
import { freePort } from '#scripts/start/services/port.ts';
import { MINUTE } from '#shared/kernel/time.ts';
import { openFaultReceiver } from '#testing/neighbours/fault-receiver.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { startWorker } from '#testing/processes/worker-process.ts';
import { again } from '#testing/stored/stored-commands.ts';
import { postDelivery } from '#testing/stored/stored-notifications.ts';
import { openMongoTap } from '#testing/stores/mongo-tap.ts';
import { requiredEnv } from '#testing/stores/open-test-mongo.ts';
import { openLane } from '#testing/suites/crash-suite.ts';
import { until, untilSlowly } from '#testing/until.ts';
import { ACTORS } from './actors.ts';

/** Database and Redis of the idle workers, one after the other. */
const lane = await openLane(t);

t.test('a worker is unready while MongoDB does not answer, and ready again afterwards', async (t) => {
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
    const isShown = scrape.includes(`examhall_dependency_up{name="mongodb"} ${up}`);
    return (await get('/readyz')).status === status && isShown;
  };

  await untilSlowly('the worker is ready', shows(200, '1'));
  tap.cut();
  await untilSlowly('the worker is unready', shows(503, '0'));
  t.equal((await get('/healthz')).status, 200, 'it is alive');
  tap.join();
  await untilSlowly('the worker is ready again', shows(200, '1'));
});

t.test(
  'a delivery worker claims its jobs with the delivery lease and reports the slots of all its queues',
  async (t) => {
    const { mongo, env } = await openLane(t);
    const receiver = await openFaultReceiver(t);
    receiver.behaviour = { kind: 'hang' };
    const worker = startWorker(t, 'delivery', {
      ...env,
      NOTIFICATION_CHANNELS: 'log,webhook',
      NOTIFICATION_WEBHOOK_URL: receiver.url,
      WORKER_LEASE_MS: '1500',
      NOTIFICATION_DELIVERY_LEASE_MS: `${5 * MINUTE}`,
      WORKER_CONCURRENCY: '3',
    });
    const job = await postDelivery(mongo);
    await until('the receiver is called', () => receiver.posts.length === 1);
    const [row] = await deliveryAttempts(mongo).find().toArray();
    t.equal(row?.status, 'QUEUED');
    const heldMs = Number((await again(mongo, job)).lockedUntil) - Number(row?.createdAt);
    t.ok(heldMs > 2 * MINUTE && heldMs < 6 * MINUTE, `held for ${heldMs} ms`);
    const [seen] = await untilAlive(mongo);
    t.match(seen, { actor: 'delivery', queues: ['delivery:log', 'delivery:webhook'], slots: 6 });

    worker.child.kill('SIGKILL');
    await worker.ended;
    t.match(await mailboxOf(mongo, job.queue).findOne({ _id: job._id }), { status: 'PENDING', attempts: 1 });
  },
);

t.test('a delivery worker without a channel idles: it stays alive, claims nothing and stops in order', async (t) => {
  const { mongo, env } = await openLane(t);
  const job = await postDelivery(mongo);
  const worker = startWorker(t, 'delivery', { ...env, NOTIFICATION_CHANNELS: '' });
  const [seen] = await untilAlive(mongo);
  t.match(seen, { actor: 'delivery', queues: [], slots: 0 });
  t.equal(await worker.stop(), '0');
  t.match(await again(mongo, job), { status: 'PENDING', attempts: 0, fence: 0 });
});

/** Waits for the heartbeat of the only process. */
function untilAlive(mongo: Mongo) {
  return until('the heartbeat of the process', async () => {
    const live = await liveWorkers(mongo, Date.now());
    return live.length === 1 ? live : null;
  });
}

/** Libraries that an idle worker does not need: those of the front doors, of model providers and of metrics without a reader. */
const FOREIGN = [
  ...['restify', 'libphonenumber-js', 'bcrypt', 'jsonwebtoken', '@zxcvbn-ts/language-common'],
  ...['undici', 'eventsource-parser', 'ajv', '@prometheus-io/client', 'es-abstract', 'nodemailer'],
];
/** Libraries that the clients of model providers need before the first call. That call loads undici. */
const OF_MODELS = ['eventsource-parser', 'ajv'];
/** Node's own HTTP client. `fetch` loads it at the first call, and so does an import of `node:http`. */
const OWN_CLIENT = 'NativeModule internal/deps/undici/undici';
const FOLDERS: Readonly<Record<string, string>> = {
  essayhandoff: 'essay-handoff',
  resultsrelease: 'results-release',
  examroom: 'exam-room',
  gradenotices: 'grade-notices',
  accountnotices: 'account-notices',
};
/** Prints every loaded module at the end of the process. */
const LIST = `import { registerHooks } from 'node:module';
const loaded = [];
registerHooks({ load(url, context, next) { loaded.push(url); return next(url, context); } });
process.on('exit', () => console.error(JSON.stringify([...loaded, ...process.moduleLoadList])));`;

/** Starts a worker until it is idle, and returns what it has loaded: libraries, folders of actors and modules of Node. */
async function loadedBy(t: Test, name: string, more: NodeJS.ProcessEnv = {}) {
  const { mongo, env } = lane;
  const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(LIST)}`;
  const worker = startWorker(t, name, { ...env, ...more, NODE_OPTIONS });
  await until('its heartbeat', async () => (await liveWorkers(mongo, Date.now())).some(({ actor }) => actor === name));
  t.equal(await worker.stop(), '0', worker.said());
  const loaded: string[] = JSON.parse(worker.said());
  const all = (pattern: RegExp) => new Set(loaded.flatMap((module) => pattern.exec(module)?.[1] ?? []));
  return { libraries: all(/\/node_modules\/((?:@[^/]+\/)?[^/]+)/), actors: all(/\/workers\/([^/]+)\//), loaded };
}

for (const name of Object.keys(ACTORS)) {
  t.test(`an idle ${name} worker loads its own actor and no library of the others`, async (t) => {
    const { libraries, actors, loaded } = await loadedBy(t, name);
    t.ok(libraries.has('mongodb'), 'the list is complete');
    t.strictSame([...actors], [FOLDERS[name] ?? name]);
    const expected = name === 'classifier' ? OF_MODELS : [];
    t.strictSame(FOREIGN.filter((library) => libraries.has(library)).sort(), expected.toSorted());
    if (name !== 'classifier') t.notOk(loaded.includes(OWN_CLIENT), 'Node’s HTTP client');
  });
}

t.test('a worker with METRICS_PORT loads the library of metrics', async (t) => {
  const { libraries } = await loadedBy(t, 'grading', { METRICS_PORT: '9' });
  t.ok(libraries.has('@prometheus-io/client'));
  t.notOk(libraries.has('undici'));
});
