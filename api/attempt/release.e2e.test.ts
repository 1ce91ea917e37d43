import { randomUUID } from 'node:crypto';
import t from 'tap';
import { attemptClient, choice, inMs, newExamId } from '#testing/clients/attempt-client.ts';
import { JSON_TYPE, openWire, requestText } from '#testing/doors/test-door.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { openMongoTap } from '#testing/stores/mongo-tap.ts';
import { requiredEnv } from '#testing/stores/open-test-mongo.ts';
import { until } from '#testing/until.ts';

const tap = await openMongoTap(t, requiredEnv('MONGODB_URL'));
const cluster = await startCluster(t, {
  inside: true,
  apart: ['grading', 'resultsrelease'],
  workers: ['grading', 'resultsrelease', 'gradenotices'],
  doors: 3,
  neighbours: false,
  envOf: {
    web2: { MONGODB_URL: tap.url, ATTEMPT_GRADING_WAIT_MS: '200' },
    web3: { INTERNAL_SERVICE_TOKEN: 'general', ATTEMPT_INTERNAL_SERVICE_TOKEN: '' },
  },
});
const client = await attemptClient(cluster);
/** Client of the door that waits only briefly for a worker. */
const hasty = await attemptClient(cluster, 2);

interface NoticeRow {
  _id: string;
  status: string;
  attempts: number;
  nextRunAt: Date;
  body: { recipient: string; releaseEventId: string | null };
}

const rowsOf = (id: string) =>
  cluster.mongo
    .collection<NoticeRow>('attempt_notices')
    .find({ _id: new RegExp(`^${id}:`) }, { sort: { _id: 1 } })
    .toArray();

async function sat(examId: string, exam: object = {}, submits = true) {
  const seat = await client.sitting({ examId, exam: { showResultMode: 'MANUAL', ...exam }, questions: [choice('q1')] });
  if (submits && (await seat.student.submit(seat.id)).status !== 200) throw new Error('not graded');
  return seat;
}

/** Returns a release whose time has passed, also by the front door's estimate of MongoDB's time. */
const flat = (examId: string, change: object = {}) => ({
  examId,
  releasedAt: inMs(-60_000),
  sourceEventId: randomUUID(),
  ...change,
});

t.test('a flat release sets its time on attempts in every state and queues rows for visible grades', async (t) => {
  const examId = newExamId();
  const [one, two] = [await sat(examId), await sat(examId)];
  const open = await sat(examId, {}, false);
  const shown = await sat(examId, { showResultMode: 'IMMEDIATE' });
  const early = await sat(examId, { showResultMode: 'AFTER_CLOSE', closeTime: inMs(3_600_000) });
  const other = await sat(newExamId());
  t.same(await rowsOf(one.id), []);
  t.equal((await rowsOf(shown.id)).length, 2);
  const event = flat(examId);
  const { status, data } = await client.release(event);
  t.equal(status, 200);
  t.same(data, { updatedAttempts: 5, queuedNotifications: 6, sourceEventId: event.sourceEventId });
  for (const { student, id } of [one, two, early, shown]) {
    t.match((await student.get(id)).data, { resultVisible: true, exam: { resultsReleasedAt: event.releasedAt } });
  }
  t.match((await open.student.get(open.id)).data, {
    status: 'IN_PROGRESS',
    exam: { resultsReleasedAt: event.releasedAt },
  });
  t.match((await other.student.get(other.id)).data, { resultVisible: false, exam: { resultsReleasedAt: null } });
  t.match(await rowsOf(one.id), [
    {
      _id: `${one.id}:notification:grade_released`,
      status: 'PENDING',
      attempts: 0,
      body: { releaseEventId: event.sourceEventId },
    },
    { _id: `${one.id}:notification:grade_released_parent`, status: 'PENDING', attempts: 0 },
  ]);
  t.same((await client.release(event)).data, {
    updatedAttempts: 0,
    queuedNotifications: 0,
    sourceEventId: event.sourceEventId,
  });
  const second = await client.release(flat(examId, { releasedAt: '2020-01-01T00:00:00Z' }));
  t.match(second.data, { updatedAttempts: 0, queuedNotifications: 0 }, 'the time is set once');
  t.match((await one.student.get(one.id)).data.exam, { resultsReleasedAt: event.releasedAt });
  t.equal((await rowsOf(one.id)).length, 2);
  t.same(await rowsOf(open.id), []);
  await open.student.submit(open.id);
  t.equal((await rowsOf(open.id)).length, 2, 'an attempt in progress gets its rows at its own submit');
});

t.test('accepts a release in the analytics event format', async (t) => {
  const examId = newExamId();
  const { student, id } = await sat(examId);
  const occurredAt = inMs(-60_000);
  const body = {
    entity: 'Exam',
    entityId: examId,
    occurredAt,
    sourceEventId: randomUUID(),
    payload: { schemaVersion: 1, status: 'PUBLISHED', more: { a: 1 } },
    more: 1,
  };
  t.match(await client.release(body), { status: 200, data: { updatedAttempts: 1, queuedNotifications: 2 } });
  t.match((await student.get(id)).data.exam, { resultsReleasedAt: occurredAt });
});

t.test('a release that names an organization binds only its attempts', async (t) => {
  const examId = newExamId();
  const ours = await sat(examId);
  const theirs = await sat(examId, { organizationId: 'org-2' });
  t.match(await client.release(flat(examId, { organizationId: 'org-1' })), { data: { updatedAttempts: 1 } });
  t.match((await ours.student.get(ours.id)).data, { resultVisible: true });
  t.match((await theirs.student.get(theirs.id)).data, { resultVisible: false });
  const later = await sat(examId, { organizationId: 'org-2' });
  t.match(
    (await later.student.get(later.id)).data,
    { resultVisible: false },
    'a later start of the other organization is not bound either',
  );
  t.match(
    (await client.release(flat(examId))).data,
    { updatedAttempts: 2, queuedNotifications: 4 },
    'without an organization it binds every attempt',
  );
});

t.test('a release to some binds their attempts alone, and a later one takes the rest', async (t) => {
  const examId = newExamId();
  const [one, two] = [await sat(examId), await sat(examId)];
  const open = await sat(examId, {}, false);
  const some = (studentIds: readonly string[]) => flat(examId, { payload: { schemaVersion: 1, studentIds } });
  t.match(await client.release(some([])), { status: 200, data: { updatedAttempts: 0, queuedNotifications: 0 } });
  const first = some([one.student.id, open.student.id, 'absent']);
  t.match(await client.release(first), { data: { updatedAttempts: 2, queuedNotifications: 2 } });
  t.match((await one.student.get(one.id)).data, { resultVisible: true });
  t.match((await two.student.get(two.id)).data, { resultVisible: false, exam: { resultsReleasedAt: null } });
  t.strictSame(await rowsOf(two.id), []);
  await open.student.submit(open.id);
  t.match((await open.student.get(open.id)).data, { status: 'GRADED', resultVisible: true });

  const rest = flat(examId, { releasedAt: inMs(-30_000) });
  t.match(await client.release(rest), { data: { updatedAttempts: 1, queuedNotifications: 2 } }, 'the rest');
  t.match((await two.student.get(two.id)).data, { exam: { resultsReleasedAt: rest.releasedAt } });
  t.match((await one.student.get(one.id)).data, { exam: { resultsReleasedAt: first.releasedAt } });
  const release = await cluster.mongo.collection('commands').findOne({ key: `resultsrelease:${first.sourceEventId}` });
  t.notMatch(JSON.stringify(release), /absent/, 'the command holds no student');
});

t.test('a grade takes the release that names its student, however many others come first', async (t) => {
  const examId = newExamId();
  const [named, other] = [await sat(examId, {}, false), await sat(examId, {}, false)];
  await cluster.kill('resultsrelease', 'SIGSTOP');
  const some = (studentIds: readonly string[]) => flat(examId, { payload: { schemaVersion: 1, studentIds } });
  const [foreign, own] = [some(['absent']), some([named.student.id])];
  for (const release of [foreign, own]) t.match(await hasty.release(release), { status: 202 });
  for (const { student, id } of [named, other]) t.match(await student.submit(id), { status: 200 });
  t.match((await named.student.get(named.id)).data, { resultVisible: true });
  t.match((await other.student.get(other.id)).data, { resultVisible: false, exam: { resultsReleasedAt: null } });
  t.match(await rowsOf(named.id), [{ body: { releaseEventId: own.sourceEventId } }, {}]);
  await cluster.kill('resultsrelease', 'SIGCONT');
  await until('the walks are over', async () => (await client.release(own)).status === 200);
  t.equal((await rowsOf(named.id)).length, 2, 'announced once');
});

t.test('an attempt that starts after a release follows its own exam snapshot', async (t) => {
  const examId = newExamId();
  t.match((await client.release(flat(examId))).data, { updatedAttempts: 0, queuedNotifications: 0 });
  const { student, id, attempt } = await sat(examId, {}, false);
  t.equal(attempt.exam.resultsReleasedAt, null);
  t.match(await student.submit(id), { status: 200, data: { resultVisible: false, exam: { resultsReleasedAt: null } } });
  t.same(await rowsOf(id), []);
  const own = await sat(examId, { resultsReleasedAt: '2026-05-04T03:00:00Z' });
  t.match((await own.student.get(own.id)).data, {
    resultVisible: true,
    exam: { resultsReleasedAt: '2026-05-04T03:00:00.000Z' },
  });
  t.match(await rowsOf(own.id), [{ body: { releaseEventId: null } }, { body: { releaseEventId: null } }]);
  t.match(
    (await client.release(flat(examId))).data,
    { updatedAttempts: 1, queuedNotifications: 2 },
    'the next binds it',
  );
  t.match((await student.get(id)).data, { resultVisible: true });
});

t.test('a release with a future time hides results and holds its notices until then', async (t) => {
  const examId = newExamId();
  const { student, id } = await sat(examId);
  const open = await sat(examId, {}, false);
  const releasedAt = inMs(3_600_000);
  t.match((await client.release(flat(examId, { releasedAt }))).data, { updatedAttempts: 2, queuedNotifications: 2 });
  await open.student.submit(open.id);
  const HIDDEN = { resultVisible: false, hiddenReason: 'Kết quả sẽ được hiển thị khi giáo viên công bố.' };
  for (const one of [
    { student, id },
    { student: open.student, id: open.id },
  ]) {
    const { data } = await one.student.get(one.id);
    t.match(data, { ...HIDDEN, totalScore: null, exam: { resultsReleasedAt: releasedAt } });
    t.match((await one.student.result(one.id)).data, { scorePercent: null, attempt: HIDDEN });
    t.match((await one.student.list()).data[0], { ...HIDDEN, totalScore: null });
    t.notMatch((await one.student.events(one.id)).text, /"totalScore":\d/);
    const rows = await rowsOf(one.id);
    t.equal(rows.length, 2);
    for (const { nextRunAt } of rows) t.equal(nextRunAt.toISOString(), releasedAt);
  }
  t.match((await client.release(flat(examId))).data, { updatedAttempts: 0, queuedNotifications: 0 }, 'set once');
  t.match((await student.get(id)).data, HIDDEN);
});

t.test('a release between submit and grading sends its notices with the grade', async (t) => {
  const second = newExamId();
  const waiting = await sat(second, {}, false);
  await cluster.kill('grading', 'SIGSTOP');
  const submitted = waiting.student.submit(waiting.id);
  await until(
    'the attempt is submitted',
    async () => (await waiting.student.get(waiting.id)).data.status === 'SUBMITTED',
  );
  const between = flat(second);
  t.match((await client.release(between)).data, { updatedAttempts: 1, queuedNotifications: 0 });
  await cluster.kill('grading', 'SIGCONT');
  t.ok((await submitted).status < 300);
  await until('the attempt is graded', async () => (await waiting.student.get(waiting.id)).data.status === 'GRADED');
  t.match(
    await rowsOf(waiting.id),
    [{ body: { releaseEventId: between.sourceEventId } }, {}],
    'the grading queues the rows',
  );
});

t.test('the close of an exam alone shows the result and queues no notice', async (t) => {
  const examId = newExamId();
  const { student, id } = await sat(examId, { showResultMode: 'AFTER_CLOSE', closeTime: inMs(3_600_000) });
  await cluster.mongo
    .collection<{ _id: string }>('attempts')
    .updateOne({ _id: id }, { $set: { 'exam.closeTime': new Date(Date.now() - 60_000) } });
  t.match((await student.get(id)).data, { resultVisible: true });
  t.match((await client.release(flat(examId))).data, { updatedAttempts: 1, queuedNotifications: 0 });
  t.same(await rowsOf(id), []);
});

t.test('a release whose worker is late answers 202 with null counts and is still applied', async (t) => {
  const examId = newExamId();
  const { student, id } = await sat(examId);
  const event = flat(examId);
  await cluster.kill('resultsrelease', 'SIGSTOP');
  const late = await hasty.release(event);
  await cluster.kill('resultsrelease', 'SIGCONT');
  t.equal(late.status, 202);
  t.same(late.data, { updatedAttempts: null, queuedNotifications: null, sourceEventId: event.sourceEventId });
  await until('the result is visible', async () => (await student.get(id)).data.resultVisible);
  const replay = await until('the release has settled', async () => {
    const reply = await client.release(event);
    return reply.status === 200 && reply;
  });
  t.match(replay.data, { updatedAttempts: 0, queuedNotifications: 0 });
});

t.test('the reply to a release names the fields that have no effect', async (t) => {
  const examId = newExamId();
  await sat(examId);
  const event = flat(examId);
  const payload = { schemaVersion: 1, classroomIds: ['12A'] };
  const released = await client.release({ ...event, classId: '12A', studentIds: null, payload });
  t.match(released, { status: 200, data: { updatedAttempts: 1 } });
  t.strictSame(released.data.ignored, ['classId', 'studentIds'], 'the fields of the body itself');
  const replay = await client.release({ ...event, ignored: [] });
  t.match(replay, { status: 200, data: { updatedAttempts: 0, ignored: ['ignored'] } });
  t.notOk('ignored' in (await client.release(event)).data);
});

t.test('refuses an invalid release', async (t) => {
  const examId = newExamId();
  const { student, id } = await sat(examId);
  const base = flat(examId);
  const cases: [string, object, string][] = [
    ['schemaVersion 2', { ...base, payload: { schemaVersion: 2 } }, '/payload/schemaVersion'],
    ['schemaVersion as text', { ...base, payload: { schemaVersion: '1' } }, '/payload/schemaVersion'],
    ['no schemaVersion', { ...base, payload: {} }, '/payload/schemaVersion'],
    ['a draft', { ...base, payload: { schemaVersion: 1, status: 'DRAFT' } }, '/payload/status'],
    ['ids that disagree', { ...base, entity: 'Exam', entityId: 'other' }, '/entityId'],
    [
      'an id in the payload that disagrees',
      { ...base, payload: { schemaVersion: 1, examId: 'other' } },
      '/payload/examId',
    ],
    [
      'organizations that disagree',
      { ...base, organizationId: 'a', payload: { schemaVersion: 1, organizationId: 'b' } },
      '/payload/organizationId',
    ],
    ['another entity', { ...base, entity: 'Course', entityId: examId }, '/entity'],
    [
      'a student that is no id',
      { ...base, payload: { schemaVersion: 1, studentIds: ['a', 7] } },
      '/payload/studentIds/1',
    ],
    [
      'too many students',
      { ...base, payload: { schemaVersion: 1, studentIds: Array(10_001).fill('a') } },
      '/payload/studentIds',
    ],
    ['no exam', { ...base, examId: undefined }, '/examId'],
    ['no time', { ...base, releasedAt: undefined }, '/releasedAt'],
    ['a time without a zone', { ...base, releasedAt: '2026-11-20T08:00:00' }, '/releasedAt'],
    ['no source event', { ...base, sourceEventId: undefined }, '/sourceEventId'],
    ['another source', { ...base, sourceService: 'api-gateway' }, '/sourceService'],
    ['another type', { ...base, type: 'exam.results_released.v2' }, '/type'],
  ];
  for (const [name, body, path] of cases) {
    const { status, json } = await client.release(body as Record<string, unknown>);
    t.match({ status, json }, { status: 400, json: { code: 'VALIDATION_FAILED' } }, name);
    t.ok(
      json.details.some((fault: { path: string }) => fault.path === path),
      `${name}: ${JSON.stringify(json.details)}`,
    );
  }
  t.match((await student.get(id)).data, { resultVisible: false });
  t.match(await client.release(base), { data: { updatedAttempts: 1 } }, 'a refused id may be sent again');
});

t.test('wrong credentials get 401 before the body is read, without a MongoDB command', async (t) => {
  const { port } = cluster.door(2);
  const token = cluster.tokens.internal;
  const faults: Record<string, string[]> = {
    none: [],
    'no token': ['X-Internal-Service: exam-service'],
    'a wrong token': ['X-Internal-Service: exam-service', 'X-Internal-Token: wrong'],
    'no sender': [`X-Internal-Token: ${token}`],
    'another sender': ['X-Internal-Service: api-gateway', `X-Internal-Token: ${token}`],
    'the token twice': ['X-Internal-Service: exam-service', `X-Internal-Token: ${token}`, `X-Internal-Token: ${token}`],
  };
  const heard = await client.call('GET', '/v1/attempts/some-attempt', {
    door: 2,
    headers: { 'x-user-id': 'a', 'x-user-role': 'ADMIN' },
  });
  t.equal(heard.status, 404);
  t.ok(tap.commands().includes('find'), 'with valid credentials the tap records a find');
  tap.clear();
  for (const [name, headers] of Object.entries(faults)) {
    const wire = openWire(t, port);
    // The head announces 200 KiB that are never sent: a door that waits for them does not answer.
    wire.write(
      requestText('POST', '/v1/events/exam-results-released', [JSON_TYPE, 'Content-Length: 200000', ...headers]),
    );
    t.match(await wire.reply(), { status: 401, json: { success: false, code: 'ATTEMPT_INTERNAL_UNAUTHORIZED' } }, name);
  }
  for (const [target, status] of [
    ['/v1/attempts/some-attempt/essay-grade-handoffs', 401],
    ['/v1/exams/some-exam/attempts', 403],
    ['/v1/exams/some-exam/start', 403],
  ] as const) {
    const wire = openWire(t, port);
    wire.write(requestText('POST', target, [JSON_TYPE, 'Content-Length: 200000']));
    t.match(await wire.reply(), { status }, target);
  }
  t.same(tap.commands(), []);
});

t.test('an empty receiver token counts as unconfigured and does not fall back to the general one', async (t) => {
  for (const token of ['', 'general']) {
    const headers = { 'x-internal-service': 'exam-service', 'x-internal-token': token };
    const reply = await client.call('POST', '/v1/events/exam-results-released', { door: 3, headers, body: '{' });
    t.match(reply, { status: 503, json: { code: 'ATTEMPT_INTERNAL_TOKEN_NOT_CONFIGURED' } });
  }
});

// Runs after all other tests.
t.test('without a notification service rows wait and spend no delivery attempt', async (t) => {
  const rows = await cluster.mongo.collection<NoticeRow>('attempt_notices').find().toArray();
  t.ok(rows.length > 10);
  t.ok(rows.every(({ status, attempts }) => status === 'PENDING' && attempts === 0));
});
