import t from 'tap';
import { failure, hangUp, openScript, success } from '#testing/clients/scripted-server.ts';
import {
  createClient,
  ExamhallError,
  type SentRequest,
  type StartRequest,
} from '../../../clients/typescript/src/index.ts';

const STUDENT = { id: 'student-1', role: 'STUDENT', organizationId: 'org-1' } as const;
const ADMIN = { id: 'admin-1', role: 'ADMIN' } as const;
const GATEWAY = { name: 'api-gateway', token: 'the-internal-token' };
const EXAM_SERVICE = { 'x-exam-runtime-decision-source': 'exam-service' } as const;
const START = { exam: {}, access: {}, questions: [] } as unknown as StartRequest;
const NOTICE = { userId: 'student-1', type: 'EXAM_ASSIGNED', title: 'Bài thi mới', content: '' };

t.test('each operation gets the credentials that it reads, and no other', async (t) => {
  const { client, calls } = await openScript(t, Array(4).fill(success({})));
  const gateway = client.with({ service: GATEWAY });
  await gateway.startAttempt({ examId: 'e', as: STUDENT, headers: EXAM_SERVICE, body: START, requestId: 'mine' });
  await gateway.with({ as: STUDENT }).readAttempt({ attemptId: 'a' });
  await gateway.listNotifications({ as: STUDENT, query: { unreadOnly: undefined, page: 2 } as never });
  await gateway.with({ token: 'access' }).readMe();
  const [start, read, list, me] = calls.map(({ headers }) => headers);
  t.match(start, {
    'x-user-id': 'student-1',
    'x-user-role': 'STUDENT',
    'x-gateway-token': 'the-gateway-token',
    'x-internal-service': 'api-gateway',
    'x-internal-token': 'the-internal-token',
    'x-exam-runtime-decision-source': 'exam-service',
    'x-request-id': 'mine',
    'content-type': 'application/json',
  });
  t.match(read, { 'x-user-id': 'student-1', 'x-internal-token': undefined, 'idempotency-key': undefined });
  t.match(list, { 'x-actor-id': 'student-1', 'x-actor-role': 'STUDENT', 'x-organization-id': 'org-1' });
  t.equal(calls[2]?.path, '/v1/notifications?page=2');
  t.match(me, { authorization: 'Bearer access', 'x-user-id': undefined, 'x-gateway-token': undefined });
});

t.test('a route for a person or a service gets one of them, that of the call first', async (t) => {
  const { client, calls } = await openScript(t, Array(3).fill(success({})));
  const both = client.with({ as: ADMIN, service: GATEWAY });
  await both.createNotification({ body: NOTICE });
  await both.createNotification({ body: NOTICE, service: { name: 'exam-service', token: 'its-token' } });
  await client.with({ service: GATEWAY }).createNotification({ body: NOTICE });
  t.strictSame(
    calls.map(({ headers }) => [headers['x-actor-id'], headers['x-internal-service']]),
    [
      ['admin-1', undefined],
      [undefined, 'exam-service'],
      [undefined, 'api-gateway'],
    ],
  );
});

t.test('a save prefers the minimal reply, and no other call does', async (t) => {
  const { client, calls } = await openScript(t, [success({ answer: { serverVersion: 3 } }), success({})]);
  const student = client.with({ as: STUDENT });
  const saved = await student.saveAnswer({ attemptId: 'a', body: { questionId: 'q', textAnswer: 'x' } });
  const serverVersion: number = saved.answer.serverVersion;
  t.equal(serverVersion, 3);
  await student.readAttempt({ attemptId: 'a' });
  t.strictSame(
    calls.map(({ headers }) => headers.prefer),
    ['return=minimal', undefined],
  );
});

t.test('a wrong input never leaves the client', async (t) => {
  t.throws(() => createClient({ baseUrl: 'examhall' }), { name: 'TypeError' });
  const { client, calls } = await openScript(t, []);
  for (const attemptId of ['', '.', '..', 'a/b', 'a?b', undefined]) {
    await t.rejects(client.readAttempt({ attemptId: attemptId as string, as: STUDENT }), { name: 'TypeError' });
  }
  await t.rejects(client.readJob({ jobId: 'j', as: ADMIN }), { message: /requires `as.organizationId`/ });
  await t.rejects(client.readAttempt({ attemptId: 'a', as: { id: 'a\nb', role: 'ADMIN' } }), { name: 'TypeError' });
  t.strictSame(calls, []);
});

t.test('every repeat of a call has its key, and the next call another one', async (t) => {
  const busy = failure(503, 'UNAVAILABLE', { 'retry-after': '2' });
  const { client, calls, pauses } = await openScript(t, [busy, hangUp, success({}), success({}), success({})]);
  const gateway = client.with({ as: STUDENT, service: GATEWAY });
  const start = { examId: 'e', headers: EXAM_SERVICE, body: START };
  await gateway.startAttempt(start);
  await gateway.startAttempt(start);
  await gateway.startAttempt({ ...start, idempotencyKey: 'mine' });
  const keys = calls.map(({ headers }) => headers['idempotency-key']);
  t.match(keys[0], /^[\w-]{36}$/);
  t.equal(new Set(keys.slice(0, 3)).size, 1);
  t.not(keys[3], keys[0]);
  t.equal(keys[4], 'mine');
  t.ok((pauses[0] ?? 0) >= 2_000, 'the server asked for two seconds');
  t.equal(new Set(calls.slice(0, 3).map(({ text }) => text)).size, 1);
});

t.test('each act with a key is sent again after a missing reply', async (t) => {
  const { client, calls } = await openScript(t, [hangUp, success({ regrade: {} }), hangUp, success({ regrade: {} })]);
  const teacher = client.with({ as: { id: 'teacher-1', role: 'TEACHER' } });
  const act = { examId: 'e', regradeId: 'r', body: { reason: 'the key is wrong' } };
  await teacher.applyRegrade(act);
  await teacher.discardRegrade(act);
  const keys = calls.map(({ headers }) => headers['idempotency-key']);
  t.strictSame([keys[0] === keys[1], keys[1] === keys[2], keys[2] === keys[3]], [true, false, true]);
});

// Before: 503 with `Retry-After` was repeated for every call, although a lost commit answers with it too.
t.test('a request that may have taken effect is repeated only where a second one does no harm', async (t) => {
  const busy = failure(503, 'UNAVAILABLE', { 'retry-after': '0' });
  const { client, calls } = await openScript(t, [busy, busy, success({})]);
  const service = { name: 'exam-service', token: 'its-token' };
  await t.rejects(client.createNotification({ service, body: NOTICE }), { code: 'UNAVAILABLE' });
  t.equal(calls.length, 1);
  await client.readAttempt({ attemptId: 'a', as: STUDENT });
  t.equal(calls.length, 3);
});

t.test('a bulk act has a key in its body, which its repeats share', async (t) => {
  const { client, calls } = await openScript(t, [hangUp, success({ id: 'act-1' }, 202), success({}), success({})]);
  const operator = client.with({ token: 'ops' });
  const order = { filter: { queue: 'grading' }, reason: 'mended', dryRun: false };
  t.match(await operator.replayDeadLetters({ body: order, follow: false }), { done: false, data: { id: 'act-1' } });
  await operator.replayDeadLetters({ body: { ...order, key: 'ticket' } });
  await operator.replayDeadLetters({ body: { ...order, dryRun: true } });
  const keys = calls.map((call) => (call.json() as { key?: string }).key);
  t.match(keys[0], /^[\w-]{36}$/);
  t.strictSame(keys.slice(1), [keys[0], 'ticket', undefined]);
});

t.test('after a missing reply only what is safe is sent again', async (t) => {
  const { client, calls } = await openScript(t, [
    hangUp,
    hangUp,
    success({}),
    hangUp,
    hangUp,
    success({}),
    hangUp,
    hangUp,
    success({}),
  ]);
  const service = { name: 'exam-service', token: 'its-token' };
  const created = client.createNotification({ service, body: NOTICE });
  await t.rejects(created, { name: 'ExamhallError', code: 'NO_REPLY', status: 0, operation: 'createNotification' });
  await client.readAttempt({ attemptId: 'a', as: STUDENT });
  const event = { type: 'x', notifications: [] };
  await t.rejects(client.takeNotificationEvent({ service, body: event as never }), { code: 'NO_REPLY' });
  const keyed = { ...event, sourceService: 'exam-service', sourceEventId: 'e-1' };
  await client.takeNotificationEvent({ service, body: keyed as never });
  const post = (type: 'TAB_HIDDEN' | 'TIMEOUT') => client.postEvent({ attemptId: 'a', as: STUDENT, body: { type } });
  await t.rejects(post('TAB_HIDDEN'), { code: 'NO_REPLY' });
  await post('TIMEOUT');
  t.strictSame(
    calls.map(({ method }) => method),
    ['POST', 'GET', 'GET', 'POST', 'POST', 'POST', 'POST', 'POST', 'POST'],
  );
});

t.test('a refusal is repeated only if the server names a time for it', async (t) => {
  const lasting = failure(429, 'EVENT_LIMIT_REACHED');
  const { client, calls, pauses } = await openScript(t, [
    lasting,
    failure(429, 'RATE_LIMITED', { 'retry-after': '3' }),
    success({ id: 'job-1' }),
    failure(429, 'RATE_LIMITED', { 'retry-after': '900' }),
    failure(429, 'AUTH_THROTTLED', { 'retry-after': '3' }),
    failure(503, 'ATTEMPT_INTERNAL_TOKEN_NOT_CONFIGURED'),
  ]);
  const student = client.with({ as: STUDENT });
  await t.rejects(student.postEvent({ attemptId: 'a', body: { type: 'TAB_HIDDEN' } }), { code: 'EVENT_LIMIT_REACHED' });
  t.match(await student.createJob({ body: {} as never }), { id: 'job-1' });
  const late = student.createJob({ body: {} as never, deadlineMs: 3_600_000 });
  await t.rejects(late, { code: 'RATE_LIMITED', retryAfterSeconds: 900 }, 'a pause that is too long');
  const login = client.login({ body: { email: 'an@truong.example', password: 'x' } });
  await t.rejects(login, { code: 'AUTH_THROTTLED', retryAfterSeconds: 3 }, 'a wrong password would count again');
  await t.rejects(client.releaseResults({ service: GATEWAY, body: {} as never }), {
    code: 'ATTEMPT_INTERNAL_TOKEN_NOT_CONFIGURED',
  });
  t.equal(calls.length, 6);
  t.equal(pauses.length, 1);
  t.ok((pauses[0] ?? 0) >= 3_000);
});

t.test('a call sends at most four requests, and none after its deadline', async (t) => {
  const { client, calls, pauses } = await openScript(t, Array(5).fill(hangUp));
  await t.rejects(client.readAttempt({ attemptId: 'a', as: STUDENT }), { code: 'NO_REPLY' });
  t.equal(calls.length, 4);
  t.equal(pauses.length, 3);
  await t.rejects(client.readAttempt({ attemptId: 'a', as: STUDENT, deadlineMs: 100 }), { code: 'NO_REPLY' });
  t.equal(calls.length, 5);
});

t.test('a signal ends a call with its reason, also between two requests', async (t) => {
  const { client, calls } = await openScript(t, [hangUp]);
  const reason = new Error('the student has left');
  const read = (signal: AbortSignal) => client.readAttempt({ attemptId: 'a', as: STUDENT, signal });
  await t.rejects(read(AbortSignal.abort(reason)), reason);
  const controller = new AbortController();
  const failing = createClient({
    baseUrl: 'http://127.0.0.1',
    fetch: async () => {
      controller.abort(reason);
      throw new TypeError('fetch failed');
    },
  });
  await t.rejects(failing.readAttempt({ attemptId: 'a', as: STUDENT, signal: controller.signal }), reason);
  t.equal(calls.length, 0);
});

t.test('a failure is one error with code, status, request id and details', async (t) => {
  const details = [{ path: '/type', message: 'is required' }];
  const { client } = await openScript(t, [
    {
      status: 400,
      headers: { 'x-request-id': 'r-1' },
      body: { success: false, code: 'VALIDATION_FAILED', message: 'invalid', details, requestId: 'r-1' },
    },
    { status: 413, headers: { 'content-type': 'text/html' }, body: '<h1>too large</h1>' },
    { status: 200, body: '<h1>a portal</h1>' },
  ]);
  const post = () => client.postEvent({ attemptId: 'a', as: STUDENT, body: { type: 'TAB_HIDDEN' } });
  const error = await post().catch((thrown: unknown) => thrown);
  t.ok(error instanceof ExamhallError);
  t.match(error, { code: 'VALIDATION_FAILED', status: 400, requestId: 'r-1', details, operation: 'postEvent' });
  await t.rejects(post(), { code: 'FOREIGN_REPLY', status: 413, requestId: null });
  await t.rejects(post(), { code: 'FOREIGN_REPLY', status: 200 });
});

t.test('a 202 is followed by reads of the attempt until it is graded', async (t) => {
  const submitted = { id: 'attempt-1', status: 'SUBMITTED' };
  const graded = { id: 'attempt-1', status: 'GRADED', totalScore: 7 };
  const { client, calls } = await openScript(t, [
    success(submitted, 202),
    success(submitted),
    failure(500, 'INTERNAL'),
    success(graded),
    success(graded),
  ]);
  const student = client.with({ service: GATEWAY });
  t.strictSame(await student.submitAttempt({ attemptId: 'attempt-1', as: STUDENT }), { done: true, data: graded });
  t.strictSame(
    calls.map(({ method, path, headers }) => `${method} ${path} ${headers['x-user-id']}`),
    ['POST /v1/attempts/attempt-1/submit student-1', ...Array(3).fill('GET /v1/attempts/attempt-1 student-1')],
  );
  t.strictSame(await student.submitAttempt({ attemptId: 'attempt-1', as: STUDENT }), { done: true, data: graded });
});

t.test('a 202 is returned as not done after the deadline, or at once', async (t) => {
  const submitted = { id: 'attempt-1', status: 'SUBMITTED' };
  const { client, pauses } = await openScript(t, Array(9).fill(success(submitted, 202)));
  const submit = { attemptId: 'attempt-1', as: STUDENT };
  t.strictSame(await client.submitAttempt({ ...submit, follow: false }), { done: false, data: submitted });
  t.strictSame(await client.submitAttempt({ ...submit, deadlineMs: 4_000 }), { done: false, data: submitted });
  const waited = pauses.reduce((sum, ms) => sum + ms, 0);
  t.ok(waited > 1_000 && waited <= 4_000, `${waited} ms`);
});

t.test(
  'a 202 of a grade or a release is followed by the same request, that of a bulk act by reads of it',
  async (t) => {
    const pending = { applied: null, sourceEventId: 'e-1' };
    const { client, calls } = await openScript(t, [
      success(pending, 202),
      success(pending, 202),
      success({ ...pending, applied: true }),
      success({ id: 'act-1', endedAt: null }, 202),
      success({ id: 'act-1', endedAt: null }),
      success({ id: 'act-1', endedAt: '2026-11-23T16:42:49.075Z' }),
    ]);
    const body = { sourceEventId: 'e-1' } as never;
    const grade = await client.handOffGrade({ attemptId: 'a', service: GATEWAY, body });
    t.match(grade, { done: true, data: { applied: true } });
    const order = { filter: { queue: 'grading' }, reason: 'mended', dryRun: false };
    const act = await client.dropDeadLetters({ token: 'ops', body: order });
    t.match(act, { done: true, data: { id: 'act-1' } });
    t.strictSame(
      calls.map(({ method, path }) => `${method} ${path}`),
      [
        ...Array(3).fill('POST /v1/attempts/a/essay-grade-handoffs'),
        'POST /v1/ops/dead-letters/drop',
        ...Array(2).fill('GET /v1/ops/dead-letters/jobs/act-1'),
      ],
    );
  },
);

t.test('client and call observe each request with its status, the reads behind a 202 included', async (t) => {
  const [all, own]: [SentRequest[], SentRequest[]] = [[], []];
  const submitted = success({ id: 'attempt-1', status: 'SUBMITTED' }, 202);
  const graded = success({ id: 'attempt-1', status: 'GRADED' });
  const { client } = await openScript(t, [hangUp, submitted, graded, failure(404, 'ATTEMPT_NOT_FOUND')], {
    observe: (sent) => void all.push(sent),
  });
  await client.submitAttempt({ attemptId: 'attempt-1', as: STUDENT, observe: (sent) => void own.push(sent) });
  const signal = AbortSignal.abort(new Error('left'));
  await t.rejects(client.readAttempt({ attemptId: 'unread', as: STUDENT, signal }), { message: 'left' });
  await t.rejects(client.readAttempt({ attemptId: 'other', as: STUDENT }), { code: 'ATTEMPT_NOT_FOUND' });
  const shown = (list: SentRequest[]) => list.map(({ operation, status, ms }) => `${operation} ${status} ${ms >= 0}`);
  t.strictSame(shown(own), ['submitAttempt 0 true', 'submitAttempt 202 true', 'readAttempt 200 true']);
  t.strictSame(shown(all), [...shown(own), 'readAttempt 404 true']);
});

t.test('a call that asks for it is repeated although its first request may have taken effect', async (t) => {
  const { client, calls } = await openScript(t, [
    hangUp,
    failure(500, 'INTERNAL'),
    success({}),
    failure(403, 'FORBIDDEN'),
  ]);
  const input = { as: ADMIN, body: NOTICE, repeatInDoubt: true };
  await client.createNotification(input);
  t.equal(calls.length, 3);
  await t.rejects(client.createNotification(input), { code: 'FORBIDDEN' });
  t.equal(calls.length, 4, 'a final failure is not repeated');
});

t.test('an error states whether its request had an effect', async (t) => {
  const busy = failure(503, 'ATTEMPT_CAPACITY_EXCEEDED', { 'retry-after': '90' });
  const { client } = await openScript(t, [hangUp, busy, failure(403, 'FORBIDDEN')]);
  const admin = client.with({ as: ADMIN });
  for (const kind of ['unknown', 'refused', 'final']) {
    const error: unknown = await admin.createNotification({ body: NOTICE }).catch((thrown: unknown) => thrown);
    t.match(error, { name: 'ExamhallError', kind });
  }
});
