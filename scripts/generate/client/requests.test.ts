import t from 'tap';
import { answerJson } from '#scripts/sandbox/local-server.ts';
import { failure, hangUp, openScript, type Scripted, stream, success } from '#testing/clients/scripted-server.ts';
import { type FailureKind, failureKind } from '../../../clients/typescript/src/examhall-error.ts';
import { operationAt } from '../../../clients/typescript/src/forward.ts';
import type { BoardEvent, ErrorCode, InboxEvent } from '../../../clients/typescript/src/index.ts';

const STUDENT = { id: 'student-1', role: 'STUDENT' } as const;

const KINDS: readonly (readonly [kind: FailureKind, code: ErrorCode, status: number, retryAfterSeconds?: number])[] = [
  ['unknown', 'NO_REPLY', 0],
  ['unknown', 'INTERNAL', 500],
  ['unknown', 'UNAVAILABLE', 503, 2],
  ['unknown', 'UNAVAILABLE', 503],
  ['unknown', 'AUTH_THROTTLED', 429, 3],
  ['unknown', 'FOREIGN_REPLY', 500],
  ['unknown', 'FOREIGN_REPLY', 502],
  ['unknown', 'FOREIGN_REPLY', 503, 2],
  ['unknown', 'FOREIGN_REPLY', 504],
  ['unknown', 'FOREIGN_REPLY', 408],
  ['refused', 'FOREIGN_REPLY', 429],
  ['refused', 'FOREIGN_REPLY', 429, 2],
  ['final', 'FOREIGN_REPLY', 200],
  ['final', 'FOREIGN_REPLY', 404],
  ['final', 'FOREIGN_REPLY', 413],
  ['refused', 'REQUEST_TIMEOUT', 408],
  ['refused', 'RATE_LIMITED', 429, 3],
  ['refused', 'AI_PROVIDER_UNAVAILABLE', 503, 3],
  ['refused', 'RATE_LIMITED', 429, 0],
  ['final', 'EVENT_LIMIT_REACHED', 429],
  ['final', 'ATTEMPT_INTERNAL_TOKEN_NOT_CONFIGURED', 503],
  ['final', 'AI_PROVIDER_INVALID_RESPONSE', 502],
  ['final', 'FORBIDDEN', 403],
  ['final', 'VALIDATION_FAILED', 400],
];

t.test('a failure is refused, unknown or final by its code, its status and its Retry-After', async (t) => {
  for (const [kind, code, status, retryAfterSeconds = null] of KINDS)
    t.equal(failureKind({ code, status, retryAfterSeconds }), kind, `${status} ${code} ${retryAfterSeconds}`);
});

const REPLIES: readonly (readonly [kind: FailureKind, name: string, reply: Scripted])[] = [
  ['unknown', 'no reply', hangUp],
  ['unknown', '500', failure(500, 'INTERNAL')],
  ['unknown', '502 of a proxy', { status: 502, body: '<h1>' }],
  ['unknown', '408 of a proxy', { status: 408, body: '<h1>' }],
  ['refused', '408', failure(408, 'REQUEST_TIMEOUT')],
  ['refused', '429', failure(429, 'RATE_LIMITED', { 'retry-after': '1' })],
  ['refused', '429 of a proxy', { status: 429, body: '<h1>' }],
  ['final', 'a lasting 429', failure(429, 'EVENT_LIMIT_REACHED')],
  ['final', 'a lasting 503', failure(503, 'ATTEMPT_INTERNAL_TOKEN_NOT_CONFIGURED')],
  ['final', '403', failure(403, 'FORBIDDEN')],
];

t.test('calls, the wait for a result and streams agree on each failure', async (t) => {
  for (const [kind, name, reply] of REPLIES) {
    const { client, calls } = await openScript(t, [
      reply,
      success({}),
      success({ id: 'a', status: 'SUBMITTED' }, 202),
      reply,
      success({ id: 'a', status: 'GRADED' }),
      stream('event: snapshot\ndata: {"unreadCount":0}\n\n'),
      reply,
      stream('event: counts\ndata: {"unreadCount":1}\n\n'),
    ]);
    const student = client.with({ as: STUDENT });
    /** Calls the server, skips what the script has left for these calls, and returns the number of requests. */
    const requests = async (expected: number, work: () => Promise<unknown>): Promise<number> => {
      const before = calls.length;
      if (kind === 'final') await t.rejects(work(), { name: 'ExamhallError' }, name);
      else await work();
      const sent = calls.length - before;
      for (let rest = sent; rest < expected; rest += 1)
        await student.readAttempt({ attemptId: 'rest' }).catch(() => null);
      return sent;
    };
    const isFinal = kind === 'final';
    const read = () => student.readAttempt({ attemptId: 'a' });
    t.equal(await requests(2, read), isFinal ? 1 : 2, `${name}: a call`);
    const submit = () => student.submitAttempt({ attemptId: 'a' });
    t.equal(await requests(3, submit), isFinal ? 2 : 3, `${name}: the wait for a result`);
    const follow = async () => {
      for await (const { event } of student.streams.inbox()) if (event === 'counts') return;
    };
    t.equal(await requests(3, follow), isFinal ? 2 : 3, `${name}: a stream`);
  }
});

t.test('only a refused request is sent again where a second one may do harm', async (t) => {
  for (const [kind, name, reply] of REPLIES) {
    let sent = 0;
    const { client } = await openScript(t, [
      (response) => {
        sent += 1;
        if (typeof reply === 'function') return reply(response);
        answerJson(response, reply);
      },
      (response) => {
        sent += 1;
        response.end(JSON.stringify({ success: true, data: {} }));
      },
    ]);
    const post = client.postEvent({ attemptId: 'a', as: STUDENT, body: { type: 'TAB_HIDDEN' } });
    await post.catch(() => null);
    t.equal(sent, kind === 'refused' ? 2 : 1, name);
  }
});

const TEACHER = { id: 'teacher-1', role: 'TEACHER' } as const;

t.test('a file is returned as its text, with the byte order mark, and a page of a proxy is refused', async (t) => {
  const file =
    (type: string, body: string, status = 200): Scripted =>
    (response) => {
      response.writeHead(status, { 'content-type': type });
      response.end(body);
    };
  const { client, calls } = await openScript(t, [
    file('text/csv; charset=utf-8', '\uFEFFstudentId\r\n'),
    file('image/svg+xml; charset=utf-8', '<svg/>'),
    file('text/html', '<h1>'),
    failure(404, 'EXAM_NOT_FOUND'),
  ]);
  const teacher = client.with({ as: TEACHER });
  const query = { separator: ';', attempts: 'best' } as const;
  t.equal(await teacher.downloadResults({ examId: 'e', query }), '\uFEFFstudentId\r\n');
  t.equal(calls[0]?.path, '/v1/exams/e/results.csv?separator=%3B&attempts=best');
  t.equal(await teacher.drawStatistics({ examId: 'e' }), '<svg/>');
  await t.rejects(teacher.downloadStatistics({ examId: 'e' }), { code: 'FOREIGN_REPLY' });
  await t.rejects(teacher.downloadResults({ examId: 'e' }), { code: 'EXAM_NOT_FOUND' });
});

t.test('a board is followed over connections, each of which begins with a snapshot', async (t) => {
  const summary = { started: 1, open: 1, submitted: 0, graded: 0, away: 0, silent: 0, overdue: 0 };
  const { client, calls } = await openScript(t, [
    stream(`event: snapshot\ndata: ${JSON.stringify({ summary })}\n\n`),
    stream(
      `event: snapshot\ndata: ${JSON.stringify({ summary })}\n\nevent: rows\ndata: {"rows":[{"attemptId":"a"}]}\n\n`,
    ),
  ]);
  const seen: BoardEvent['event'][] = [];
  for await (const event of client.streams.board({ examId: 'e', as: TEACHER })) {
    seen.push(event.event);
    if (event.event === 'rows') break;
  }
  t.strictSame(seen, ['snapshot', 'snapshot', 'rows']);
  t.equal(calls[1]?.path, '/v1/exams/e/board/stream');
});

t.test('a path names one operation, and one that would name another route after it is resolved names none', (t) => {
  const found = [
    ['GET', '/v1/attempts/a.1@x', 'readAttempt'],
    ['GET', '/v1/attempts/a%40x?detail=../x', 'readAttempt'],
    ['GET', '/v1/notifications/preferences', 'readPreferences'],
    ['GET', '/v1/notifications/stream', 'streamInbox'],
    ['GET', '/v1/notifications/unsubscribe?token=a.b', 'showUnsubscribe'],
    ['DELETE', '/v1/auth/sessions/s-1', 'endSession'],
  ] as const;
  for (const [method, path, name] of found) t.equal(operationAt(method, path)?.name, name, `${method} ${path}`);
  const none = ['', 'ops/..', '.', '..', '%2e%2e', '.%2E', 'a/../b', 'a%2Fb', 'a\\b', 'a#b', 'a b', 'a/'];
  for (const id of none) t.equal(operationAt('GET', `/v1/attempts/${id}`), null, id);
  for (const path of ['/v1/attempts', '/V1/auth/me', '//v1/auth/me', 'http://x/v1/auth/me', '/healthz'])
    t.equal(operationAt('GET', path), null, path);
  t.equal(operationAt('POST', '/v1/auth/me'), null);
  t.end();
});

t.test(
  'a forwarded request has the credentials of its operation, and no header that a browser may forge',
  async (t) => {
    const { client, calls } = await openScript(t, Array(3).fill(success({})));
    const gateway = client.with({ as: TEACHER, token: 'access' });
    const forged = {
      'x-actor-id': 'other',
      'x-actor-role': 'ADMIN',
      'x-user-id': 'other',
      'x-internal-service': 'exam-service',
      'x-internal-token': 'a token',
      'x-gateway-token': 'a token',
      'x-organization-id': 'org-2',
      'x-forwarded-for': '10.0.0.1',
      authorization: 'Bearer forged',
      cookie: 'session=a',
      traceparent: '00-1',
    };
    const headers = {
      ...forged,
      'user-agent': 'a browser',
      'x-request-id': 'mine',
      'x-device-token': 'of the browser',
      'content-type': 'application/json',
    };
    await gateway.forward({ method: 'GET', path: '/v1/notifications', headers, address: '192.0.2.7' });
    await gateway.forward({ method: 'POST', path: '/v1/auth/login', headers, body: '{"a":1}' });
    await gateway.forward({ method: 'GET', path: '/v1/auth/me', headers });
    const own = new Set([
      ...Object.keys(forged),
      'user-agent',
      'x-request-id',
      'x-client-request-id',
      'x-device-token',
    ]);
    const [list, login, me] = calls.map((call) =>
      Object.fromEntries(Object.entries(call.headers).filter(([name]) => own.has(name))),
    );
    const passed = { 'user-agent': 'a browser', 'x-client-request-id': 'mine', 'x-device-token': 'of the browser' };
    t.strictSame(list, {
      ...passed,
      'x-actor-id': 'teacher-1',
      'x-actor-role': 'TEACHER',
      'x-gateway-token': 'the-gateway-token',
      'x-forwarded-for': '192.0.2.7',
    });
    t.strictSame(login, passed);
    t.equal(calls[1]?.text, '{"a":1}');
    t.strictSame(me, { ...passed, authorization: 'Bearer access' });
  },
);

t.test('a reply is returned as it is, once, and a path without an operation is not sent', async (t) => {
  const busy = failure(503, 'UNAVAILABLE', { 'retry-after': '1' });
  const { client, calls } = await openScript(t, [busy, failure(400, 'VALIDATION_FAILED')]);
  const gateway = client.with({ as: TEACHER });
  const get = (path: string) => gateway.forward({ method: 'GET', path, headers: {} });
  const reply = await get('/v1/notifications');
  t.equal(reply.headers.get('retry-after'), '1');
  t.match([reply.status, await reply.json()], [503, { code: 'UNAVAILABLE' }]);
  t.equal((await get('/v1/ai-classifier/jobs/job-1')).status, 400, 'examhall refuses the missing organization');
  const missing = await get('/v1/attempts/../ops/status');
  t.match([missing.status, await missing.json()], [404, { success: false, code: 'ROUTE_NOT_FOUND' }]);
  t.equal(calls.length, 2);
});

const STREAM_TEACHER = { id: 'teacher-1', role: 'TEACHER', organizationId: 'org-1' } as const;

async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const all: Item[] = [];
  for await (const item of items) all.push(item);
  return all;
}

function message(event: string, data: unknown, id?: string): string {
  return `${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}

t.test('an inbox resumes after its last id, and waits as long as the server requires', async (t) => {
  const { client, calls, pauses } = await openScript(t, [
    stream('retry: 5000\n\n', message('snapshot', { unreadCount: 1 }, 'first'), message('heartbeat', { at: 'now' })),
    failure(429, 'RATE_LIMITED', { 'retry-after': '90' }),
    hangUp,
    stream(message('snapshot', { unreadCount: 2 }, 'second'), 'event: counts\ndata: {"unread'),
    stream(message('notification', { notification: { id: 'n-1' } }, 'third')),
  ]);
  const events: InboxEvent[] = [];
  let resumptions = 0;
  const beforeResume = () => {
    resumptions += 1;
  };
  for await (const event of client.streams.inbox({ as: STUDENT, lastEventId: 'kept', beforeResume })) {
    events.push(event);
    if (event.event === 'notification') break;
  }
  t.strictSame(events, [
    { event: 'snapshot', data: { unreadCount: 1 }, id: 'first' },
    { event: 'heartbeat', data: { at: 'now' } },
    { event: 'snapshot', data: { unreadCount: 2 }, id: 'second' },
    { event: 'notification', data: { notification: { id: 'n-1' } }, id: 'third' },
  ]);
  t.strictSame(
    calls.map(({ headers }) => headers['last-event-id']),
    ['kept', 'first', 'first', 'first', 'second'],
  );
  t.match(calls[0]?.headers, { accept: 'text/event-stream', 'x-actor-id': 'student-1', 'x-gateway-token': /./ });
  t.equal(resumptions, 4);
  const [afterEnd = 0, afterRefusal = 0, afterLoss = 0] = pauses;
  t.ok(afterEnd >= 4_000 && afterEnd <= 6_000, `${afterEnd} ms after the end, by the retry of the stream`);
  t.ok(afterRefusal >= 90_000, `${afterRefusal} ms after the 429`);
  t.ok(afterLoss >= 5_000, `${afterLoss} ms after a lost connection`);
});

t.test('a job ends with its last event, and with a 204', async (t) => {
  const job = (status: string) => ({ job: { id: 'job-1', status } });
  const { client, calls } = await openScript(t, [
    stream(message('snapshot', job('RUNNING'), '1')),
    stream(message('job.updated', job('COMPLETED'), '2')),
    { status: 204, body: '' },
  ]);
  const follow = async (lastEventId?: string) => {
    const seen: string[] = [];
    const resume = lastEventId === undefined ? {} : { lastEventId };
    for await (const { event } of client.streams.job({ jobId: 'job-1', as: STREAM_TEACHER, ...resume }))
      seen.push(event);
    return seen;
  };
  t.strictSame(await follow(), ['snapshot', 'job.updated']);
  t.strictSame(await follow('2'), []);
  t.strictSame(
    calls.map(({ path, headers }) => `${path} ${headers['last-event-id']}`),
    ['undefined', '1', '2'].map((id) => `/v1/ai-classifier/jobs/job-1/events ${id}`),
  );
});

t.test('a final refusal, a first connection that always fails, and an ended session end a stream', async (t) => {
  const { client } = await openScript(t, [
    failure(403, 'FORBIDDEN'),
    hangUp,
    hangUp,
    hangUp,
    hangUp,
    stream(message('snapshot', { unreadCount: 0 }, 'first')),
  ]);
  const first = (options = {}) => collect(client.streams.inbox({ as: STUDENT, ...options }));
  await t.rejects(first(), { code: 'FORBIDDEN', operation: 'streamInbox', requestId: 'request-1' });
  await t.rejects(first(), { code: 'NO_REPLY' });
  const ended = new Error('the session has ended');
  const beforeResume = () => {
    throw ended;
  };
  await t.rejects(first({ beforeResume }), ended);
});

t.test('a silent connection is replaced, and a signal ends the iteration', async (t) => {
  const { client, calls } = await openScript(t, [
    (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(message('snapshot', { unreadCount: 0 }, 'first'));
    },
    (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(message('counts', { unreadCount: 1 }));
    },
  ]);
  const leaving = new AbortController();
  const seen: string[] = [];
  for await (const { event } of client.streams.inbox({ as: STUDENT, silenceMs: 20, signal: leaving.signal })) {
    seen.push(event);
    if (event === 'counts') leaving.abort();
  }
  t.strictSame(seen, ['snapshot', 'counts']);
  t.equal(calls[1]?.headers['last-event-id'], 'first');
  t.strictSame(await collect(client.streams.inbox({ as: STUDENT, signal: AbortSignal.abort() })), []);
});
