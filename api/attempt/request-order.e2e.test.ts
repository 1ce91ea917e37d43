import t from 'tap';
import { clusterHash } from '#infra/mongo/cluster-key.ts';
import { attemptClient, choice, newExamId } from '#testing/clients/attempt-client.ts';
import type { HttpRequest } from '#testing/clients/call.ts';
import { JSON_TYPE, openWire, requestText } from '#testing/doors/test-door.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { until } from '#testing/until.ts';

const cluster = await startCluster(t, {
  inside: true,
  workers: [],
  doors: 3,
  neighbours: false,
  env: { ATTEMPT_GRADING_WAIT_MS: '0' },
  envOf: {
    web2: { GATEWAY_TOKEN: 'gateway-token' },
    web3: { REQUEST_HEAD_TIMEOUT_MS: '400', REQUEST_BODY_TIMEOUT_MS: '400' },
  },
});
const client = await attemptClient(cluster);
const { student, id } = await client.sitting();
const OWNER = { 'x-user-id': student.id, 'x-user-role': 'STUDENT' };

t.test('an unknown route answers 404 and another method 405, for every caller', async (t) => {
  for (const path of [
    '/v2',
    '/v1/attempts',
    `/v1/attempts/${id}/`,
    `/v1/attempts/${id}/other`,
    '/V1',
    '/v1/exams/e/begin',
  ]) {
    t.match(await client.call('GET', path), { status: 404, json: { success: false, code: 'ROUTE_NOT_FOUND' } }, path);
  }
  for (const bad of [
    'a%20b',
    'x'.repeat(129),
    '%00',
    'a%2Fb',
    'ấ'.normalize('NFC').length === 1 ? '%E1%BA%A5' : '',
    '$ne',
  ]) {
    t.match(
      await client.call('GET', `/v1/attempts/${bad}`, { headers: OWNER }),
      { status: 404 },
      `path id ${bad.slice(0, 10)}`,
    );
  }
  for (const [method, path, allow] of [
    ['PUT', `/v1/attempts/${id}`, 'GET'],
    ['GET', `/v1/attempts/${id}/submit`, 'POST'],
    ['DELETE', `/v1/attempts/${id}/events`, 'GET, POST'],
    ['GET', '/v1/events/exam-results-released', 'POST'],
    ['OPTIONS', '/v1/student/attempts', 'GET'],
  ] as const) {
    const reply = await client.call(method, path);
    t.match(reply, { status: 405, json: { code: 'METHOD_NOT_ALLOWED' } }, `${method} ${path}`);
    t.same((reply.headers.allow ?? '').split(/, */).sort().join(', '), allow);
  }
});

t.test('every reply is an envelope and carries its request id', async (t) => {
  const good = await client.call('GET', `/v1/attempts/${id}`, {
    headers: { ...OWNER, 'x-request-id': 'My_request.1-x' },
  });
  t.equal(good.headers['x-request-id'], 'My_request.1-x');
  t.same(Object.keys(good.json).sort(), ['data', 'message', 'success']);
  const bad = await client.call('GET', '/v1/attempts/missing', {
    headers: { ...OWNER, 'x-request-id': 'r'.repeat(128) },
  });
  t.same(Object.keys(bad.json).sort(), ['code', 'message', 'requestId', 'success']);
  t.equal(bad.json.requestId, 'r'.repeat(128));
  for (const name of ['', 'two words', 'r'.repeat(129), 'ä', '{}']) {
    const reply = await client.call('GET', '/v1/attempts/missing', { headers: { ...OWNER, 'x-request-id': name } });
    t.not(reply.headers['x-request-id'], name);
    t.match(reply.headers['x-request-id'], /^[\w.-]{1,128}$/);
    t.equal(reply.json.requestId, reply.headers['x-request-id']);
  }
});

t.test('front doors name a caller by the same hash, and a browser chooses no id of a log line', async (t) => {
  const { client: driver } = cluster.mongo;
  const hash = await clusterHash({ db: cluster.mongo, client: driver, close: async () => undefined });
  const actor = hash('actor', student.id);
  const mine = { ...OWNER, 'x-request-id': 'chosen-by-me' };
  const headers = { ...mine, 'x-gateway-token': 'gateway-token' };
  t.equal((await client.call('GET', `/v1/attempts/${id}`, { headers: mine })).status, 200);
  t.equal((await client.call('GET', `/v1/attempts/${id}`, { door: 2, headers })).status, 200);
  t.equal((await client.call('GET', '/v1', { door: 2, headers: { 'x-request-id': 'chosen-by-me' } })).status, 200);
  const [first, second, third] = await until('the lines are written', () => {
    const lines = [1, 2].flatMap((door) => cluster.output(`web${door}`).split('\n'));
    const found = lines.filter((line) => line.includes('"msg":"request"') && line.includes('chosen-by-me'));
    return found.length === 3 && found.map((line) => JSON.parse(line));
  });
  t.match(
    [first, second],
    [
      { requestId: 'chosen-by-me', actor },
      { requestId: 'chosen-by-me', actor },
    ],
  );
  t.match(third, { requestId: /^[0-9a-f-]{36}$/, clientRequestId: 'chosen-by-me' });
});

t.test('a request is checked in the order of the contract', async (t) => {
  const target = `/v1/attempts/${id}/answers`;
  await student.submit(id);
  const huge = Buffer.concat([Buffer.from('{"questionId": 1, "\\ud800'), Buffer.alloc(1_100_000, 0xff)]);
  let headers: Record<string, string> = {
    'content-type': 'text/plain',
    'content-encoding': 'gzip',
    'x-user-role': 'ADMIN',
  };
  let body: unknown = huge;
  const step = async (status: number, code: string, fix: () => void) => {
    t.match(await client.call('POST', target, { headers, body }), { status, json: { success: false, code } }, code);
    fix();
  };
  await step(401, 'UNAUTHENTICATED', () => Object.assign(headers, { 'x-user-id': 'stranger' }));
  await step(403, 'FORBIDDEN', () => Object.assign(headers, { 'x-user-role': 'STUDENT' }));
  await step(415, 'UNSUPPORTED_MEDIA_TYPE', () =>
    Object.assign(headers, { 'content-type': 'application/json; charset=utf-8' }),
  );
  await step(415, 'UNSUPPORTED_ENCODING', () => Object.assign(headers, { 'content-encoding': 'identity' }));
  await step(413, 'PAYLOAD_TOO_LARGE', () => (body = huge.subarray(0, 100)));
  await step(400, 'INVALID_JSON', () => (body = { questionId: 1 }));
  await step(400, 'VALIDATION_FAILED', () => (body = { questionId: 'q1', textAnswer: 'x' }));
  t.match(await client.call('POST', '/v1/attempts/missing/answers', { headers, body }), {
    status: 404,
    json: { code: 'ATTEMPT_NOT_FOUND' },
  });
  await step(403, 'FORBIDDEN', () => (headers = { ...headers, ...OWNER }));
  await step(409, 'ATTEMPT_LOCKED', () => undefined);
});

t.test('refuses a body that is not acceptable JSON', async (t) => {
  const post = (body: string | Buffer, door?: HttpRequest) =>
    client.call('POST', `/v1/attempts/${id}/events`, {
      ...door,
      headers: { ...OWNER, 'content-type': 'application/json' },
      body,
    });
  const deep = (levels: number) => `{"type":"TAB_HIDDEN","metadata":${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}}`;
  const bodies: [string, string | Buffer][] = [
    ['cut off', '{"type":'],
    ['text', 'TAB_HIDDEN'],
    ['trailing garbage', '{"type":"TAB_HIDDEN"}x'],
    ['NaN', '{"type":NaN}'],
    ['single quotes', "{'type':'TAB_HIDDEN'}"],
    ['a comment', '{"type":"TAB_HIDDEN"/**/}'],
    ['invalid UTF-8', Buffer.from('7b2274797065223a22ff227d', 'hex')],
    ['an overlong form', Buffer.from('7b2274797065223a22c080227d', 'hex')],
    ['__proto__', '{"type":"TAB_HIDDEN","__proto__":{}}'],
    ['an escaped __proto__', '{"type":"TAB_HIDDEN","metadata":{"\\u005f_proto__":{}}}'],
    ['constructor.prototype', '{"constructor":{"prototype":{}}}'],
    ['65 levels', deep(64)],
    ['200,000 levels', '['.repeat(200_000)],
  ];
  for (const [name, body] of bodies) {
    const reply = await post(body);
    t.match(reply, { status: 400, json: { code: 'INVALID_JSON' } }, name);
    t.notOk(reply.text.includes('TAB_HIDDEN'), 'the body is not quoted');
  }
  t.match(await post(deep(63)), { status: 201 }, '64 levels');
  t.match(await post('\ufeff{"type":"TAB_HIDDEN"}'), { status: 201 }, 'a byte order mark');
  for (const body of ['[]', 'null', '1', '"text"']) {
    t.match(await post(body), { status: 400, json: { code: 'VALIDATION_FAILED' } }, body);
  }
});

t.test('most routes accept bodies up to 256 KiB and stop reading there', async (t) => {
  const filled = (size: number) => `{"type":"TAB_HIDDEN"${' '.repeat(size - 21)}}`;
  for (const [size, status] of [
    [262_144, 201],
    [262_145, 413],
  ] as const) {
    const reply = await client.call('POST', `/v1/attempts/${id}/events`, {
      headers: { ...OWNER, 'content-type': 'application/json' },
      body: filled(size),
    });
    t.equal(reply.status, status);
  }
  const wire = openWire(t, cluster.door().port);
  const headers = [JSON_TYPE, `X-User-Id: ${student.id}`, 'X-User-Role: STUDENT', 'Transfer-Encoding: chunked'];
  wire.write(requestText('POST', `/v1/attempts/${id}/events`, headers));
  const chunk = Buffer.alloc(65_536, 0x20);
  for (let n = 0; n < 5; n++) wire.write(Buffer.concat([Buffer.from('10000\r\n'), chunk, Buffer.from('\r\n')]));
  t.match(
    await wire.reply(),
    { status: 413, json: { code: 'PAYLOAD_TOO_LARGE' } },
    'answered while the sender goes on',
  );
});

t.test('ignores unknown plain query names and refuses bracketed ones', async (t) => {
  for (const [query, status] of [
    ['?a=1', 200],
    ['?', 200],
    ['?limit=-1&page=x', 200],
    ['?status[$ne]=X', 400],
    ['?a%5Bb%5D=1', 400],
    ['?a[]=1&a[]=2', 400],
  ] as const) {
    for (const target of ['/v1/student/attempts', `/v1/attempts/${id}`]) {
      const reply = await client.call('GET', `${target}${query}`, { headers: OWNER });
      t.equal(reply.status, status, `${target}${query}`);
      if (status === 400) t.equal(reply.json.code, 'VALIDATION_FAILED');
    }
  }
  t.equal((await client.call('GET', '/v1/student/attempts?a[b]=1')).status, 401, 'the identity comes first');
});

t.test('with a gateway token configured, every route that trusts identity checks it first', async (t) => {
  const call = (method: string, target: string, headers: Record<string, string | readonly string[]>, body?: unknown) =>
    client.call(method, target, { door: 2, headers, body });
  const routes: [string, string][] = [
    ['GET', '/v1/student/attempts'],
    ['GET', '/v1/admin/attempts/summary'],
    ['GET', `/v1/attempts/${id}`],
    ['GET', `/v1/attempts/${id}/events`],
    ['GET', `/v1/attempts/${id}/result`],
    ['POST', `/v1/attempts/${id}/answers`],
    ['POST', `/v1/attempts/${id}/submit`],
    ['POST', `/v1/attempts/${id}/events`],
    ['POST', '/v1/exams/e/attempts'],
    ['POST', '/v1/exams/e/start'],
  ];
  for (const [method, target] of routes) {
    for (const token of [undefined, '', 'wrong', 'gateway-tokem', ['gateway-token', 'gateway-token']]) {
      const headers = { ...OWNER, ...(token === undefined ? {} : { 'x-gateway-token': token }) };
      t.match(
        await call(method, target, headers),
        { status: 401, json: { code: 'UNAUTHENTICATED' } },
        `${method} ${target}`,
      );
    }
    const passed = await call(method, target, { ...OWNER, 'x-gateway-token': 'gateway-token' });
    t.not(passed.status, 401);
  }
  t.equal((await call('GET', `/v1/attempts/${id}`, { ...OWNER, 'x-gateway-token': 'gateway-token' })).status, 200);
  t.equal((await call('GET', '/v1/nothing', {})).status, 404);
  t.equal((await call('PUT', `/v1/attempts/${id}`, {})).status, 405);
  t.equal((await call('GET', '/healthz', {})).status, 200);
  const internal = { 'x-internal-service': 'exam-service', 'x-internal-token': cluster.tokens.internal };
  t.equal(
    (await call('POST', '/v1/events/exam-results-released', internal, {})).status,
    400,
    'internal routes have their own',
  );
});

t.test('a request that does not arrive in time gets 408', async (t) => {
  const { port } = cluster.door(3);
  const head = openWire(t, port);
  head.write('POST /v1/attempts/a/submit HTTP/1.1\r\nHost: test\r\nX-User-');
  const body = openWire(t, port);
  const headers = [JSON_TYPE, `X-User-Id: ${student.id}`, 'X-User-Role: STUDENT', 'Content-Length: 100'];
  body.write(`${requestText('POST', `/v1/attempts/${id}/submit`, headers)}{"source"`);
  t.match(await head.reply(), { status: 408, json: { success: false, code: 'REQUEST_TIMEOUT' } });
  t.match(await body.reply(), { status: 408, json: { success: false, code: 'REQUEST_TIMEOUT' } });
});

t.test('a start accepts five hundred questions and cuts off a body over 8 MiB', async (t) => {
  const questions = Array.from({ length: 500 }, (_, n) => choice(`q${n}`));
  const { attempt } = await client.sitting({ questions });
  t.equal(attempt.questions.length, 500);
  t.equal(attempt.maxScore, 500);
  const large = (megabytes: number) => ({
    questions: Array.from({ length: megabytes }, (_, n) => choice(`q${n}`, { content: 'x'.repeat(1_000_000) })),
  });
  t.match(await client.student().start(newExamId(), large(8)), { status: 201 });
  t.match(await client.student().start(newExamId(), large(9)), { status: 413, json: { code: 'PAYLOAD_TOO_LARGE' } });
});
