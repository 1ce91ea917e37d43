import t from 'tap';
import { NOTICES } from '#infra/mongo/mailbox/commands.ts';
import type { Command } from '#shared/kernel/command.ts';
import { attemptClient } from '#testing/clients/attempt-client.ts';
import { type Cluster, startCluster } from '#testing/processes/cluster.ts';
import { runExamhall } from '#testing/processes/run-examhall.ts';
import { requiredEnv } from '#testing/stores/open-test-mongo.ts';
import { until } from '#testing/until.ts';

t.test('a failed call of a worker to another service reaches the status, and the next answer ends it', async (t) => {
  const cluster = await startCluster(t, { inside: true, workers: ['grading', 'gradenotices'] });
  const client = await attemptClient(cluster);
  const headers = { authorization: `Bearer ${cluster.tokens.ops}` };
  /** Returns the alarms that `GET /v1/ops/status` has for services. */
  const silentServices = async (): Promise<{ about: string }[]> => {
    const { json } = await cluster.request('GET', '/v1/ops/status', { headers });
    return json.data.alarms.filter(({ kind }: { kind: string }) => kind === 'dependency-down');
  };

  t.strictSame(await silentServices(), []);
  cluster.neighbours.answer = () => ({ status: 500 });
  const { student, id } = await client.sitting();
  await student.submit(id);
  const alarms = await until('the alarm', async () => {
    const found = await silentServices();
    return found.some(({ about }) => about === 'notification') && found;
  });
  t.match(
    alarms.find(({ about }) => about === 'notification'),
    { text: /the service `notification` does not answer its workers/, remedy: /NOTIFICATION_SERVICE_URL/ },
  );
  cluster.neighbours.answer = null;
  // The notices of another attempt reach the service at once; those that failed still back off.
  const second = await client.sitting();
  await second.student.submit(second.id);
  await until('no alarm', async () => (await silentServices()).every(({ about }) => about !== 'notification'));
});

/** Runs `examhall status` as a process of its own. */
function statusOf({ env }: Cluster) {
  const { MONGODB_DATABASE: database = '', REDIS_URL } = env;
  const place = { url: requiredEnv('MONGODB_URL'), database };
  return runExamhall(place, ['status'], { env: { ...(REDIS_URL === undefined ? {} : { REDIS_URL }) } });
}

t.test('a refused notice is an alarm in the status until the service takes it, and then arrives once', async (t) => {
  const cluster = await startCluster(t, { workers: ['grading', 'gradenotices', 'upkeep'] });
  const client = await attemptClient(cluster);
  const rows = cluster.mongo.collection<Command>(NOTICES);
  const status = () => statusOf(cluster);
  /** Lets a minute pass for the notices that are refused: their refusal is a minute older, or their next run is due. */
  const letMinutePass = async (isDue: boolean) => {
    const now = new Date();
    const passed = isDue ? { nextRunAt: now } : { 'lastError.refusal.since': new Date(now.getTime() - 60_000) };
    await rows.updateMany({ status: 'PENDING', lockedUntil: null, 'lastError.refusal.status': 401 }, { $set: passed });
  };

  t.match(await status(), { code: 0, out: /^all is well\n/ });
  cluster.neighbours.answer = ({ path }) => (path === '/v1/events/notification' ? { status: 401 } : undefined);
  const { student, id } = await client.sitting();
  await student.submit(id);
  await until('both notices are refused', async () => {
    const refused = { status: 'PENDING', lockedUntil: null, 'lastError.refusal.status': 401 } as const;
    return (await rows.countDocuments(refused)) === 2;
  });
  await letMinutePass(false);

  const refused = await status();
  t.equal(refused.code, 1);
  t.match(
    refused.out,
    /^1 alarm\n {2}the service `notification` answers 401 since \d+ s \(\d{4}-\S+Z\), and 2 commands/,
  );
  t.match(refused.out, /gradenotices:parent, gradenotices:student wait: correct `NOTIFICATION_TOKEN_ATTEMPT_SERVICE`/);
  const headers = { authorization: `Bearer ${cluster.tokens.ops}` };
  const { json } = await cluster.request('GET', '/v1/ops/status', { headers });
  t.match(json.data.alarms, [{ kind: 'dependency-refuses', about: 'notification', status: 401, commands: 2 }]);
  const metrics = await cluster.request('GET', '/metrics', { headers });
  t.match(metrics.text, /^examhall_dependency_refused\{name="notification"\} 2$/m);

  for (const name of ['gradenotices', 'grading', 'upkeep', 'web1']) await cluster.restart(name, 'SIGKILL');
  t.equal((await status()).code, 1, 'no process remembers it');

  cluster.neighbours.answer = null;
  await letMinutePass(true);
  await until('both are delivered', async () => (await rows.countDocuments({ status: 'DELIVERED' })) === 2);
  const healed = await until('no alarm', async () => {
    const told = await status();
    return told.code === 0 && told;
  });
  t.match(healed.out, /^all is well\n/);
  const sent = [...cluster.neighbours.notices].filter(([event]) => event.startsWith(id));
  t.strictSame(
    sent.map(([, times]) => times),
    [1, 1],
  );
});
