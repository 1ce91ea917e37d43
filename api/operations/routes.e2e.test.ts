import { once } from 'node:events';
import { request } from 'node:http';
import t from 'tap';
import { freePort } from '#scripts/start/services/port.ts';
import { firstSteps } from '#scripts/start/supervisor/development-defaults.ts';
import { attemptClient } from '#testing/clients/attempt-client.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { openMongoTap } from '#testing/stores/mongo-tap.ts';
import { requiredEnv } from '#testing/stores/open-test-mongo.ts';
import { until, untilSlowly } from '#testing/until.ts';

/** Time for the requests of a test to a draining front door, on a slow machine. */
const PATIENT_DRAIN = {
  DRAIN_GRACE_MS: '20000',
  SHUTDOWN_TIMEOUT_MS: '120000',
  REQUEST_BODY_TIMEOUT_MS: '120000',
};

const tap = await openMongoTap(t, requiredEnv('MONGODB_URL'));
const cluster = await startCluster(t, {
  inside: true,
  apart: ['web2'],
  workers: ['grading'],
  doors: 3,
  neighbours: false,
  envOf: {
    web2: {
      NODE_ENV: 'production',
      GATEWAY_TRUST: 'network',
      HOST: '127.0.0.1',
      TRUSTED_PROXIES: 'none',
      ...PATIENT_DRAIN,
    },
    web3: { MONGODB_URL: tap.url, REDIS_URL: `redis://127.0.0.1:${await freePort()}`, SERVICES: 'attempt' },
  },
});
const client = await attemptClient(cluster);

t.test('health, readiness and index describe a running door', async (t) => {
  const health = await client.call('GET', '/healthz');
  t.match(health.json, {
    success: true,
    message: 'OK',
    data: { status: 'ok', service: /./, version: /^\d+\.\d+\.\d+/, uptimeSeconds: Number },
  });
  t.same(Object.keys(health.data).sort(), ['service', 'status', 'uptimeSeconds', 'version']);
  // The first checks may precede the connection to Redis, and each store has half a second to answer.
  const ready = await until('ready', async () => {
    const reply = await client.call('GET', '/readyz');
    return reply.data?.status === 'ready' && reply;
  });
  t.match(ready, {
    status: 200,
    data: { status: 'ready', checks: { mongodb: { latencyMs: Number }, redis: { latencyMs: Number } } },
  });
  const index = (await client.call('GET', '/v1')).data;
  t.same(Object.keys(index).sort(), ['routes', 'services', 'version']);
  t.same(index.services, ['attempt', 'auth', 'classifier', 'notification']);
  const { paths, openapi } = (await client.call('GET', '/openapi.json')).json;
  t.match(openapi, /^3\.1\./);
  const listed = index.routes.map(({ method, path }: { method: string; path: string }) => `${method} ${path}`).sort();
  const described = Object.entries(paths as object).flatMap(([path, item]) =>
    Object.keys(item).map((method) => `${method.toUpperCase()} ${path}`),
  );
  t.same(described.sort(), listed);
  for (const route of [
    'GET /healthz',
    'GET /readyz',
    'GET /v1',
    'GET /openapi.json',
    'GET /metrics',
    'GET /v1/admin/attempts/summary',
    'GET /v1/student/attempts',
    'POST /v1/exams/{examId}/attempts',
    'POST /v1/exams/{examId}/start',
    'GET /v1/attempts/{attemptId}',
    ...['answers', 'submit', 'events', 'essay-grade-handoffs'].map((name) => `POST /v1/attempts/{attemptId}/${name}`),
    ...['events', 'result'].map((name) => `GET /v1/attempts/{attemptId}/${name}`),
    'POST /v1/events/exam-results-released',
  ]) {
    t.ok(listed.includes(route), route);
  }
});

t.test('metrics are public in development and require the operator token in production', async (t) => {
  const open = await client.call('GET', '/metrics');
  t.match(open, { status: 200, headers: { 'content-type': /^text\/plain/ } });
  t.match(open.text, /^# TYPE /m);
  const scrape = (authorization?: string) =>
    cluster.request('GET', '/metrics', { door: 2, headers: { authorization } });
  const { ops } = cluster.tokens;
  for (const wrong of [undefined, 'Bearer', 'Bearer wrong', `Basic ${ops}`, ops])
    t.equal((await scrape(wrong)).status, 401, `${wrong}`);
  t.equal((await scrape(`Bearer ${ops}`)).status, 200);
  await until('production warns', () => cluster.output('web2').includes('GATEWAY_TOKEN is not set'));
});

t.test('a door without Redis is degraded and keeps working; without MongoDB it is unready', async (t) => {
  const probe = () => client.call('GET', '/readyz', { door: 3 });
  const degraded = await until('the front door is degraded without Redis', async () => {
    const reply = await probe();
    return reply.data?.status === 'degraded' && reply;
  });
  t.match(degraded, { status: 200, data: { status: 'degraded', checks: { mongodb: {}, redis: {} } } });
  const { student, id } = await client.sitting();
  const headers = { 'x-user-id': student.id, 'x-user-role': 'STUDENT' };
  const submitted = await client.call('POST', `/v1/attempts/${id}/submit`, { door: 3, headers, body: {} });
  t.match(submitted, { status: 200, data: { status: 'GRADED' } }, 'graded without Redis, by polling');

  tap.cut();
  const unready = await until('the front door is unready without MongoDB', async () => {
    const reply = await probe();
    return reply.status === 503 && reply;
  });
  t.match(unready, { status: 503, json: { success: false, data: { status: 'unready' } } });
  const away = await client.call('GET', `/v1/attempts/${id}`, { door: 3, headers });
  t.match(away, { status: 503, json: { code: 'UNAVAILABLE' }, headers: { 'retry-after': /^\d+$/ } });
  t.equal((await client.call('GET', '/healthz', { door: 3 })).status, 200, 'healthz needs no MongoDB');
  tap.join();
  await until(
    'the front door is ready again',
    async () => (await client.call('GET', `/v1/attempts/${id}`, { door: 3, headers })).status === 200,
  );
});

t.test('a draining door reports unready and still serves requests', async (t) => {
  const held = request(`${cluster.door(2).url}/v1/attempts/any/submit`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'content-length': 2, 'x-user-id': 'u', 'x-user-role': 'STUDENT' },
  });
  held.write('{');
  const ended = cluster.kill('web2', 'SIGTERM');
  const draining = await until('the front door is unready', async () => {
    const reply = await client.call('GET', '/readyz', { door: 2 });
    return reply.status === 503 && reply;
  });
  t.match(draining.json, { success: false, data: { status: 'unready' } });
  t.equal((await client.call('GET', '/healthz', { door: 2 })).status, 200);
  held.end('}');
  const [{ statusCode }] = await once(held, 'response');
  t.equal(statusCode, 404, 'the open request is answered');
  t.equal(await ended, 0, 'the process exits with 0');
  t.equal(cluster.pid('web2'), undefined);
});

t.test('each address that npm start prints after `ready` leads to a page that answers 200', async (t) => {
  const { url } = cluster.door();
  const addresses = firstSteps({ url, env: {} }).flatMap((line) => line.match(/http:\S+?(?=;|\s|$)/g) ?? []);
  t.strictSame(addresses, [`${url}/ops`, `${url}/docs`, `${url}/openapi.json`]);
  for (const address of [url, ...addresses]) {
    const reply = await fetch(address, { headers: { accept: 'text/html' } });
    t.equal(reply.status, 200, `${address} leads to ${reply.url}`);
    await reply.arrayBuffer();
  }
});

/** Longer than any start of a process holds the event loop. */
const HELD_MS = 5_000;

t.test('a front door and a worker whose event loop work has held are named in the status', async (t) => {
  const loops = await startCluster(t, { inside: true, workers: ['grading'] });
  const headers = { authorization: `Bearer ${loops.tokens.ops}` };
  const busyLoops = async (): Promise<{ about: string; heldMs: number; text: string }[]> => {
    const { json } = await loops.request('GET', '/v1/ops/status', { headers });
    return json.data.alarms.filter(({ kind }: { kind: string }) => kind === 'busy-loop');
  };
  const isHeld = ({ heldMs }: { heldMs: number }) => heldMs > 0.9 * HELD_MS;

  // Both run in this process, so that the same work holds them.
  const endsAt = process.threadCpuUsage().user + HELD_MS * 1_000;
  while (process.threadCpuUsage().user < endsAt);
  await untilSlowly('both are named', async () => (await busyLoops()).filter(isHeld).length === 2);
  const alarms = (await busyLoops()).filter(isHeld);
  for (const name of ['web', 'grading']) {
    const alarm = alarms.find(({ about }) => about.startsWith(`${name}@`));
    t.match(alarm, {
      text: new RegExp(`^${name}@\\S+:${process.pid}.*: one piece of work held its event loop for \\d`),
    });
  }
});
