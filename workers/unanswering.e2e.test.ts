import t from 'tap';
import { attemptClient } from '#testing/clients/attempt-client.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { until } from '#testing/until.ts';

const cluster = await startCluster(t, { inside: true, workers: ['grading', 'gradenotices'] });
const client = await attemptClient(cluster);
const headers = { authorization: `Bearer ${cluster.tokens.ops}` };

/** Returns the alarms that `GET /v1/ops/status` has for services. */
async function silentServices(): Promise<{ about: string }[]> {
  const { json } = await cluster.request('GET', '/v1/ops/status', { headers });
  return json.data.alarms.filter(({ kind }: { kind: string }) => kind === 'dependency-down');
}

t.test('a failed call of a worker to another service reaches the status, and the next answer ends it', async (t) => {
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
