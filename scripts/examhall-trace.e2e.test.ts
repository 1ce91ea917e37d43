import t from 'tap';
import { attemptClient, choice } from '#testing/clients/attempt-client.ts';
import { startCluster, TOKENS } from '#testing/processes/cluster.ts';
import { callExamhall } from '#testing/processes/run-examhall.ts';
import { requiredEnv } from '#testing/stores/open-test-mongo.ts';
import { until } from '#testing/until.ts';

t.test(
  'one trace follows an attempt from a missing worker to a muted student, over HTTP and in the tool',
  async (t) => {
    const cluster = await startCluster(t, {
      workers: ['gradenotices', 'upkeep'],
      asleep: ['grading'],
      ownNotifications: true,
      env: { ATTEMPT_GRADING_WAIT_MS: '100' },
    });
    const client = await attemptClient(cluster);
    const { student, id } = await client.sitting({ questions: [choice('q1')] });
    const muted = await client.call('PATCH', '/v1/notifications/preferences', {
      headers: { 'x-actor-id': student.id, 'x-actor-role': 'STUDENT' },
      body: { mutedUntil: '2099-01-01T00:00:00Z' },
    });
    t.equal(muted.status, 200);
    t.equal((await student.submit(id)).status, 202);

    const read = (query: string, headers: Record<string, string> = { authorization: `Bearer ${TOKENS.ops}` }) =>
      client.call('GET', `/v1/ops/trace?${query}`, { headers });
    const place = { url: cluster.env.MONGODB_URL ?? requiredEnv('MONGODB_URL'), database: cluster.mongo.databaseName };
    const told = async (wanted: string) => {
      const env = { REDIS_URL: cluster.env.REDIS_URL };
      const { out, code } = await callExamhall(place, ['trace', wanted], { env });
      t.equal(code, 0);
      return out.split('\n').slice(1, 5).join('\n');
    };
    t.match((await read(`id=${id}`)).data, { subject: 'attempt', verdicts: [{ code: 'NO_WORKER', count: 1 }] });
    t.match(
      await told(id),
      /^stuck: not graded: no live `grading` worker; 1 command due since \d+ s; scale `grading`$/m,
    );
    for (const role of ['STUDENT', 'TEACHER'])
      t.equal((await read(`id=${id}`, { 'x-user-id': student.id, 'x-user-role': role })).status, 403, role);

    await cluster.start('grading');
    const whole = await until('both notices are delivered, and analytics has its report', async () => {
      const { lines, verdicts } = (await read(`id=${id}`)).data;
      const delivered = lines.filter(
        (line: { kind: string; state: string }) => line.kind === 'notice' && line.state === 'DELIVERED',
      );
      const isOver = verdicts.every(({ standing }: { standing: string }) => standing !== 'runs');
      return delivered.length === 2 && isOver && { lines, verdicts };
    });
    t.match(whole.verdicts, [
      { standing: 'dropped', code: 'MUTED', text: 'not notified: the user has muted notifications' },
    ]);
    const kinds = new Set(whole.lines.map(({ kind }: { kind: string }) => kind));
    for (const kind of ['attempt', 'event', 'command', 'notice', 'notification-event', 'suppression', 'notification'])
      t.ok(kinds.has(kind), kind);
    t.match(await told(`user:${student.id}`), /not notified: the user has muted notifications/);
    const asAdmin = { 'x-user-id': 'admin-1', 'x-user-role': 'ADMIN' };
    const [first] = (await read(`student=${student.id}`, asAdmin)).data.lines;
    t.match(first, { kind: 'attempt', id, state: 'GRADED' });
    t.match(await read('id=unknown'), { status: 404, json: { code: 'TRACE_NOT_FOUND' } });
  },
);
