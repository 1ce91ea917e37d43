import { randomUUID } from 'node:crypto';
import t from 'tap';
import { freePort } from '#scripts/start/services/port.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { attemptClient, inMs, newExamId, numeric } from '#testing/clients/attempt-client.ts';
import { callHttp } from '#testing/clients/call.ts';
import type { NeighbourCall } from '#testing/neighbours/neighbours.ts';
import { type Cluster, startCluster } from '#testing/processes/cluster.ts';
import { until } from '#testing/until.ts';

const metricsPort = await freePort();
const cluster = await startCluster(t, {
  inside: true,
  apart: ['gradenotices'],
  workers: ['grading', 'gradenotices', 'resultsrelease'],
  env: {
    ATTEMPT_OUTBOX_RETRY_BASE_MS: '10',
    ATTEMPT_OUTBOX_MAX_ATTEMPTS: '3',
    NOTIFICATION_TOKEN_ATTEMPT_SERVICE: 'notify-token',
  },
  envOf: { gradenotices: { METRICS_PORT: String(metricsPort) } },
});
const { neighbours } = cluster;
const client = await attemptClient(cluster);

interface Row {
  _id: string;
  status: string;
  attempts: number;
  nextRunAt: Date;
  settledAt: Date;
  result: unknown;
}

async function settled(of: Cluster, id: string, suffix: string): Promise<Row> {
  const rows = of.mongo.collection<Row>('attempt_notices');
  return until('the row has settled', async () => {
    const row = await rows.findOne({ _id: `${id}:notification:${suffix}` });
    return row !== null && row.status !== 'PENDING' && row;
  });
}

/** Answer to the calls about an attempt or student, by id. Without an entry, or if it returns undefined: the usual answer. */
const answers = new Map<string, (call: NeighbourCall) => { status: number; body?: unknown } | undefined>();
neighbours.answer = (call) => {
  const about = call.path.startsWith('/v1/students/') ? call.path.split('/')[3] : String(call.body?.entityId);
  return answers.get(about ?? '')?.(call);
};
const callsOf = (about: string) =>
  neighbours.calls.filter(({ path, body }) => path.includes(about) || body?.entityId === about);
const noticesOf = (id: string) => callsOf(id).filter(({ path }) => path === '/v1/events/notification');

t.test('a visible grade sends exactly these notices to the student and the parents', async (t) => {
  neighbours.parents = ['parent-1', 'parent-2'];
  const examId = newExamId();
  const change = {
    examId,
    exam: { title: 'Đề "số" 1' },
    access: { assigned: false, link: { id: 'link-canary', mode: 'LOGIN_REQUIRED', active: true } },
  };
  const info = { fullName: 'An', email: 'canary@mail.vn', phone: '0912345678' };
  const { student, id } = await client.sitting({
    ...change,
    studentInfo: info,
    questions: [numeric('q1', [{ value: 918_273 }])],
  });
  await student.save(id, { questionId: 'q1', textAnswer: 'canary-answer' });
  await student.submit(id);
  t.match(await settled(cluster, id, 'grade_released'), {
    status: 'DELIVERED',
    attempts: 1,
    result: { recipients: 1 },
  });
  t.match(await settled(cluster, id, 'grade_released_parent'), { status: 'DELIVERED', result: { recipients: 2 } });
  const calls = noticesOf(id);
  t.equal(calls.length, 2);
  const byId = new Map(calls.map((call) => [call.body?.sourceEventId, call]));
  const common = { entity: 'ExamAttempt', entityId: id, organizationId: 'org-1' };
  const title = 'Kết quả bài thi đã được công bố';
  const body = (suffix: string, preferenceType: string, content: string, users: string[]) => ({
    sourceService: 'attempt-service',
    sourceEventId: `${id}:notification:${suffix}`,
    type: 'attempt.grade_released.notification.v1',
    preferenceType,
    ...common,
    targetUserIds: users,
    notifications: users.map((userId) => ({ userId, type: preferenceType, title, content, preferenceType, ...common })),
    payload: { schemaVersion: 1, attemptId: id, examId, examTitle: 'Đề "số" 1' },
  });
  const toStudent = byId.get(`${id}:notification:grade_released`);
  t.same(toStudent?.body, body('grade_released', 'GRADE_RELEASED', 'Bài thi "Đề "số" 1" đã có kết quả.', [student.id]));
  const toParents = byId.get(`${id}:notification:grade_released_parent`);
  t.same(
    toParents?.body,
    body('grade_released_parent', 'GRADE_RELEASED_PARENT', 'Bài thi của con bạn "Đề "số" 1" đã có kết quả.', [
      'parent-1',
      'parent-2',
    ]),
  );
  t.match(toStudent, {
    method: 'POST',
    headers: {
      'x-internal-service': 'attempt-service',
      'x-internal-token': 'notify-token',
      'content-type': /^application\/json/,
    },
  });
  const [lookup] = callsOf(student.id).filter(({ method }) => method === 'GET');
  t.match(lookup, {
    path: `/v1/students/${student.id}/parents`,
    headers: { 'x-internal-service': 'attempt-service', 'x-internal-token': cluster.tokens.internal },
  });
  const told = JSON.stringify(calls.map((call) => call.body));
  for (const secret of ['canary-answer', '918273', 'link-canary', 'canary@mail.vn', '0912345678', '"An"']) {
    t.notOk(told.includes(secret), secret);
  }
});

t.test('a hidden grade sends no notice until its release, which the notice names', async (t) => {
  const examId = newExamId();
  const { student, id } = await client.sitting({ examId, exam: { showResultMode: 'MANUAL' } });
  t.match(await student.submit(id), { status: 200, data: { resultVisible: false } });
  t.equal(await cluster.mongo.collection('attempt_notices').countDocuments({ subject: id }), 0);
  const event = { examId, releasedAt: '2025-11-20T00:00:00Z', sourceEventId: 'release $1' };
  t.match((await client.release(event)).data, { updatedAttempts: 1, queuedNotifications: 2 });
  await settled(cluster, id, 'grade_released_parent');
  await settled(cluster, id, 'grade_released');
  t.match(noticesOf(id)[0]?.body, { payload: { releaseEventId: 'release $1' } });
  await client.release({ ...event, sourceEventId: 'release $2' });
  t.equal(await cluster.mongo.collection('attempt_notices').countDocuments({ subject: id }), 2);
});

t.test('notices of a future release survive their worker and are sent once, at the release time', async (t) => {
  const examId = newExamId();
  const { student, id } = await client.sitting({ examId, exam: { showResultMode: 'MANUAL' } });
  await student.submit(id);
  const releasedAt = inMs(HOUR);
  const event = { examId, releasedAt, sourceEventId: `ahead-${examId}` };
  t.match((await client.release(event)).data, { updatedAttempts: 1, queuedNotifications: 2 });
  await cluster.restart('gradenotices', 'SIGKILL');
  const again = { ...event, releasedAt: inMs(0), sourceEventId: `again-${examId}` };
  t.match((await client.release(again)).data, { updatedAttempts: 0, queuedNotifications: 0 });
  const shown = await client.sitting();
  await shown.student.submit(shown.id);
  for (const suffix of ['grade_released', 'grade_released_parent']) await settled(cluster, shown.id, suffix);
  t.equal(noticesOf(id).length, 0, 'the worker has polled and sent none of them');

  // Move the release time to the present.
  const dueAt = new Date(Date.now() + 500);
  const attempts = cluster.mongo.collection<{ _id: string }>('attempts');
  await attempts.updateOne({ _id: id }, { $set: { 'exam.resultsReleasedAt': dueAt } });
  const { modifiedCount } = await cluster.mongo
    .collection<Row>('attempt_notices')
    .updateMany({ _id: new RegExp(`^${id}:`), status: 'PENDING', attempts: 0 }, { $set: { nextRunAt: dueAt } });
  t.equal(modifiedCount, 2, 'both wait');
  for (const suffix of ['grade_released', 'grade_released_parent']) {
    const row = await settled(cluster, id, suffix);
    t.match(row, { status: 'DELIVERED', attempts: 1 });
    t.ok(row.settledAt >= dueAt, 'not before its time');
  }
  t.equal(noticesOf(id).length, 2);
  t.match(noticesOf(id)[0]?.body, { payload: { releaseEventId: event.sourceEventId } });
  await until('the student sees what was announced', async () => (await student.get(id)).data.resultVisible);
});

t.test('an empty parent list or 404 from the profile service ends the parents’ notice', async (t) => {
  for (const answer of [{ status: 200, body: { data: { parentIds: [] } } }, { status: 404 }]) {
    const { student, id } = await client.sitting();
    answers.set(student.id, () => answer);
    await student.submit(id);
    t.match(await settled(cluster, id, 'grade_released_parent'), { status: 'DELIVERED', result: { recipients: 0 } });
    await settled(cluster, id, 'grade_released');
    t.equal(noticesOf(id).length, 1, 'the student’s only');
  }
});

t.test('a notice that its receiver rejects permanently is DEAD at once', async (t) => {
  for (const status of [400, 413, 422]) {
    const { student, id } = await client.sitting();
    answers.set(id, () => ({ status }));
    await student.submit(id);
    t.match(await settled(cluster, id, 'grade_released'), { status: 'DEAD', attempts: 1 }, String(status));
    t.match((await student.get(id)).data, { status: 'GRADED', resultVisible: true, totalScore: 0 });
  }
});

t.test('a notice to a failing receiver is retried and DEAD once its attempts are used up', async (t) => {
  const { student, id } = await client.sitting();
  answers.set(id, (call) => (call.path === '/v1/events/notification' ? { status: 500 } : undefined));
  answers.set(student.id, () => ({ status: 503 }));
  await student.submit(id);
  t.match(await settled(cluster, id, 'grade_released'), { status: 'DEAD', attempts: 3 });
  t.match(await settled(cluster, id, 'grade_released_parent'), { status: 'DEAD', attempts: 3 });
  t.equal(noticesOf(id).length, 3);
  const healing = await client.sitting();
  let failures = 0;
  answers.set(healing.id, (call) =>
    call.path === '/v1/events/notification' && failures++ < 2 ? { status: 429 } : undefined,
  );
  await healing.student.submit(healing.id);
  t.match(await settled(cluster, healing.id, 'grade_released'), { status: 'DELIVERED' });
});

t.test('a configuration fault raises an alarm and spends no delivery attempt', async (t) => {
  const rows = cluster.mongo.collection<Row>('attempt_notices');
  const alarms = async () => {
    const { text } = await callHttp(`http://127.0.0.1:${metricsPort}`, 'GET', '/metrics');
    return Number(/^examhall_alarms_total\{name="notice_misconfigured"\} (\d+)/m.exec(text)?.[1] ?? 0);
  };
  for (const status of [401, 403, 404, 405]) {
    const before = await alarms();
    const { student, id } = await client.sitting();
    answers.set(id, (call) => (call.path === '/v1/events/notification' ? { status } : undefined));
    answers.set(student.id, () => ({ status: 200, body: { data: { parentIds: [] } } }));
    await student.submit(id);
    const row = await until(`${status}: it waits`, async () => {
      const found = await rows.findOne({ _id: `${id}:notification:grade_released` });
      return found !== null && found.nextRunAt.getTime() > Date.now() + 20_000 && found;
    });
    t.match(row, { status: 'PENDING', attempts: 0 }, String(status));
    t.equal(await alarms(), before + 1);
    // The row would be due again in a minute and raise its alarm among the others.
    await rows.updateOne({ _id: row._id }, { $set: { nextRunAt: new Date(Date.now() + HOUR) } });
  }
  const before = await alarms();
  const { student, id } = await client.sitting();
  answers.set(student.id, () => ({ status: 401 }));
  await student.submit(id);
  await until('the parents’ row waits', async () => {
    const found = await rows.findOne({ _id: `${id}:notification:grade_released_parent` });
    return found !== null && found.nextRunAt.getTime() > Date.now() + 20_000 && found.attempts === 0;
  });
  t.equal(await alarms(), before + 1, 'the profile service too');
});

t.test('an unreachable receiver uses up attempts; without a profile service the parents’ row waits', async (t) => {
  const nowhere = `http://127.0.0.1:${await freePort()}`;
  const lonely = await startCluster(t, {
    inside: true,
    workers: ['grading', 'gradenotices'],
    neighbours: false,
    env: {
      NOTIFICATION_SERVICE_BASE_URL: nowhere,
      ANALYTICS_SERVICE_URL: nowhere,
      ATTEMPT_OUTBOX_RETRY_BASE_MS: '10',
      ATTEMPT_OUTBOX_MAX_ATTEMPTS: '2',
    },
  });
  const alone = await attemptClient(lonely);
  const { student, id } = await alone.sitting({ examId: `exam-${randomUUID()}` });
  t.match(await student.submit(id), { status: 200, data: { status: 'GRADED' } });
  t.match(await settled(lonely, id, 'grade_released'), { status: 'DEAD', attempts: 2 });
  const waiting = await lonely.mongo
    .collection<Row>('attempt_notices')
    .findOne({ _id: `${id}:notification:grade_released_parent` });
  t.match(waiting, { status: 'PENDING', attempts: 0 });
});
