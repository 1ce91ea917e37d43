import { gzipSync } from 'node:zlib';
import t from 'tap';
import { identity } from '#api/http/guards/identity.ts';
import { allRoutes } from '#scripts/generate/all-routes.ts';
import { ask, echoRoute, JSON_TYPE, openTestDoor, openWire, requestText } from '#testing/doors/test-door.ts';

const CHUNKED = 'Transfer-Encoding: chunked';

t.test('a request without a body is handled as {}', async (t) => {
  const { port } = await openTestDoor(t);
  const empty = { status: 200, json: { data: { body: {} } } };
  t.match(await ask(t, port, 'POST', '/v1/echo/a'), empty);
  t.match(await ask(t, port, 'POST', '/v1/echo/a', ['Content-Length: 0']), empty);
  t.match(await ask(t, port, 'POST', '/v1/echo/a', [JSON_TYPE], ''), empty);
  const wire = openWire(t, port);
  wire.write(`${requestText('POST', '/v1/echo/a', [CHUNKED])}0\r\n\r\n`);
  t.match(await wire.reply(), empty);
});

t.test('accepts only JSON media types in UTF-8', async (t) => {
  const { port } = await openTestDoor(t);
  const send = (...headers: string[]) => ask(t, port, 'POST', '/v1/echo/a', headers, '{"name":"a"}');
  for (const good of [
    'application/json',
    'Application/JSON ; charset="UTF-8"',
    'application/json;charset=utf8',
    'application/json; a=b',
  ]) {
    t.match(await send(`Content-Type: ${good}`), { status: 200 }, good);
  }
  const wrong = { status: 415, json: { code: 'UNSUPPORTED_MEDIA_TYPE' } };
  for (const bad of [
    'text/plain',
    'application/jsonp',
    'application/json; charset=utf-16',
    'application/x-www-form-urlencoded',
    '',
  ]) {
    t.match(await send(`Content-Type: ${bad}`), wrong, bad);
  }
  t.match(await send(), wrong, 'without a content type');
  t.match(await send(JSON_TYPE, 'Content-Type: text/plain'), wrong, 'twice');
  const wire = openWire(t, port);
  wire.write(`${requestText('POST', '/v1/echo/a', [CHUNKED])}2\r\n{}\r\n0\r\n\r\n`);
  t.match(await wire.reply(), wrong, 'chunked without a type');
});

t.test('refuses what a form of a foreign page can send, with or without a body', async (t) => {
  const { body: _body, ...bodyless } = echoRoute({ path: '/v1/unread/:id' });
  const { port } = await openTestDoor(t, {
    routes: [echoRoute(), bodyless, { ...bodyless, method: 'DELETE' }, { ...bodyless, method: 'GET' }],
  });
  const refused = { status: 415, json: { code: 'UNSUPPORTED_MEDIA_TYPE' } };
  for (const type of [
    'application/x-www-form-urlencoded',
    'Multipart/Form-Data; boundary=x',
    'text/plain',
    'text/plain;charset=UTF-8',
    'TEXT/PLAIN ; a=b',
  ]) {
    for (const path of ['/v1/echo/a', '/v1/unread/a']) {
      for (const body of [undefined, '', 'a=b'])
        t.match(await ask(t, port, 'POST', path, [`Content-Type: ${type}`], body), refused, `${type} ${path} ${body}`);
      t.match(await ask(t, port, 'POST', path, [JSON_TYPE, `Content-Type: ${type}`], ''), refused, 'twice');
    }
    t.match(await ask(t, port, 'DELETE', '/v1/unread/a', [`Content-Type: ${type}`], 'a=b'), refused);
    t.match(await ask(t, port, 'DELETE', '/v1/unread/a', [`Content-Type: ${type}`], ''), { status: 200 });
    t.match(await ask(t, port, 'GET', '/v1/unread/a', [`Content-Type: ${type}`], ''), { status: 200 });
  }
  for (const headers of [[], [JSON_TYPE], ['Content-Type: text/plainer']])
    t.match(await ask(t, port, 'POST', '/v1/unread/a', headers, ''), { status: 200 }, headers.join());
});

t.test('refuses an encoded body unread, whether or not its encoding is as declared', async (t) => {
  const { port } = await openTestDoor(t);
  for (const [encoding, body] of [
    ['gzip', gzipSync('{}').toString('latin1')],
    ['gzip', '{}'],
    ['br', '{}'],
    ['identity, gzip', '{}'],
  ] as const) {
    const reply = await ask(t, port, 'POST', '/v1/echo/a', [JSON_TYPE, `Content-Encoding: ${encoding}`], body);
    t.match(reply, { status: 415, json: { code: 'UNSUPPORTED_ENCODING' } });
  }
  t.match(await ask(t, port, 'POST', '/v1/echo/a', [JSON_TYPE, 'Content-Encoding: Identity'], '{}'), { status: 200 });
});

t.test('refuses unacceptable JSON', async (t) => {
  const { port } = await openTestDoor(t, { routes: [echoRoute({ body: { schema: 'test/body', maxBytes: 1 << 20 } })] });
  const bodies = [
    '{',
    '{"name":}',
    'undefined',
    '{"name":"a"} x',
    ' ',
    '{"a":1,}',
    "{'a':1}",
    '\ufeff\ufeff{}',
    'NaN',
    '{"a":01}',
    '{"__proto__":{}}',
    '{"free":{"a":[{"__proto__":1}]}}',
    '{"free":{"\\u005f_proto__":1}}',
    '{"free":{"constructor":{"prototype":{}}}}',
    '{"free":{"constructo\\u0072":{"prototype":1}}}',
    nested(65),
    nested(200_000),
    '['.repeat(500_000),
    '{"a":'.repeat(100_000),
  ];
  for (const body of bodies) {
    const reply = await ask(t, port, 'POST', '/v1/echo/a', [JSON_TYPE], body);
    t.match(reply, { status: 400, json: { code: 'INVALID_JSON' } }, body.slice(0, 40));
    t.notOk(JSON.stringify(reply.json).includes('constructor'), 'never quotes');
  }
  const wire = openWire(t, port);
  wire.write(
    Buffer.concat([
      Buffer.from(`${requestText('POST', '/v1/echo/a', [JSON_TYPE, 'Content-Length: 4'])}"`),
      Buffer.from([0xc3, 0x28, 0x22]),
    ]),
  );
  t.match(await wire.reply(), { status: 400, json: { code: 'INVALID_JSON' } }, 'not UTF-8');
});

t.test('refuses a member that an object has twice', async (t) => {
  const { port } = await openTestDoor(t);
  for (const body of ['{"name":"a","name":"b"}', '{"free":{"x":[{"a":1,"\\u0061":1}]}}']) {
    const reply = await ask(t, port, 'POST', '/v1/echo/a', [JSON_TYPE], body);
    t.match(reply, {
      status: 400,
      json: { code: 'INVALID_JSON', message: 'An object of the body has a member twice' },
    });
  }
});

t.test('accepts unusual but valid JSON', async (t) => {
  const { port } = await openTestDoor(t);
  const names = [
    '{"name":"a"}',
    '\ufeff{"name":"a"}',
    ' {"name" : "a"}\n',
    '{"name":"\\u0061"}',
    '{"name":"__proto__"}',
  ];
  for (const body of names) t.match(await ask(t, port, 'POST', '/v1/echo/a', [JSON_TYPE], body), { status: 200 }, body);
  const free = {
    constructor: 'text',
    $where: 1,
    'a.b': 'constructor',
    prototype: {},
    'tiếng Việt': '😀',
    deep: nestedValue(61),
  };
  const body = JSON.stringify({ free });
  const reply = await ask(t, port, 'POST', '/v1/echo/a', [JSON_TYPE], body);
  t.strictSame(reply.json.data.body, JSON.parse(body));
});

t.test('reports values that cannot be stored and faults of shape together', async (t) => {
  const { port } = await openTestDoor(t);
  const cases: [string, string[]][] = [
    ['{"size":1e400,"more":1}', ['/size', '/more']],
    [`{"size":${'9'.repeat(400)}}`, ['/size']],
    ['{"name":"\\ud800"}', ['/name']],
    ['{"free":{"a\\u0000b":1}}', ['/free/a\u0000b']],
    ['{"free":{"x/y~z":[0,-1e999]}}', ['/free/x~1y~0z/1']],
    [
      '{"size":100000000000000000001,"free":{"code":98765432109876543210,"n":[6.02e23,2.8e16]}}',
      ['/size', '/free/code'],
    ],
    ['[]', ['']],
    ['null', ['']],
    ['"text"', ['']],
  ];
  for (const [body, paths] of cases) {
    const { status, json } = await ask(t, port, 'POST', '/v1/echo/a', [JSON_TYPE], body);
    t.match({ status, json }, { status: 400, json: { code: 'VALIDATION_FAILED' } }, body.slice(0, 40));
    const found = json.details.map((detail: { path: string }) => detail.path);
    for (const path of paths) t.ok(found.includes(path), JSON.stringify([body.slice(0, 40), path]));
    t.equal(new Set(found).size, found.length, 'each place once');
  }
  const { status } = await ask(t, port, 'POST', '/v1/echo/a', [JSON_TYPE], '{"size":1.5e3}');
  t.equal(status, 200);
});

t.test('refuses a run of combining marks, except in the fields that the route names', async (t) => {
  const body = { schema: 'test/body', maxBytes: 1_024, anyMarks: ['/free/kept'] };
  const { port } = await openTestDoor(t, { routes: [echoRoute({ body })] });
  const marked = `a${'\u0301'.repeat(31)}`;
  const kept = await ask(t, port, 'POST', '/v1/echo/a', [JSON_TYPE], JSON.stringify({ free: { kept: marked } }));
  t.match(kept, { status: 200, json: { data: { body: { free: { kept: marked } } } } });
  const refused = await ask(
    t,
    port,
    'POST',
    '/v1/echo/a',
    [JSON_TYPE],
    JSON.stringify({ name: 7, free: { x: marked } }),
  );
  const details = [
    { path: '/free/x', message: 'must not contain more than 30 combining marks in a row' },
    { path: '/name' },
  ];
  t.match(refused, { status: 400, json: { code: 'VALIDATION_FAILED', details } });
});

t.test('only an answer of a student and a presented password may have a run of combining marks', async (t) => {
  const named = allRoutes().flatMap(({ operation, body }) =>
    (body?.anyMarks ?? []).map((path) => `${operation} ${path}`),
  );
  t.strictSame(named.sort(), [
    'changePassword /currentPassword',
    'login /password',
    'previewEssayGrade /answerText',
    'saveAnswer /answer/textAnswer',
    'saveAnswer /textAnswer',
  ]);
});

t.test('a body over its size limit is not read beyond the limit', async (t) => {
  const { port } = await openTestDoor(t);
  t.match(await ask(t, port, 'POST', '/v1/echo/a', [JSON_TYPE], fill(1_024)), { status: 200 });
  t.match(await ask(t, port, 'POST', '/v1/echo/a', [JSON_TYPE], fill(1_025)), {
    status: 413,
    json: { code: 'PAYLOAD_TOO_LARGE' },
  });

  const announced = openWire(t, port);
  announced.write(requestText('POST', '/v1/echo/a', [JSON_TYPE, 'Content-Length: 99999999999999']));
  t.match(await announced.reply(), { status: 413, headers: { connection: 'close' } }, 'by its length alone');

  const endless = openWire(t, port);
  endless.write(requestText('POST', '/v1/echo/a', [JSON_TYPE, CHUNKED]));
  const chunk = `10000\r\n${'x'.repeat(0x10000)}\r\n`;
  const pump = (): void => {
    while (!endless.socket.destroyed && endless.socket.write(chunk));
    endless.socket.once('drain', pump);
  };
  pump();
  t.match(await endless.reply(), { status: 413, headers: { connection: 'close' } }, 'by counting');
  await endless.closed;
  t.ok(endless.socket.bytesWritten < 64 << 20, `sent ${endless.socket.bytesWritten} before the door closed`);
});

t.test('a client that writes its whole request before it reads still gets the reply', async (t) => {
  const { port } = await openTestDoor(t);
  const wire = openWire(t, port);
  wire.socket.pause();
  const body = 'x'.repeat(900_000);
  await new Promise<void>((resolve) =>
    wire.socket.write(requestText('POST', '/v1/echo/a', [JSON_TYPE], body), () => resolve()),
  );
  wire.socket.resume();
  t.match(await wire.reply(), { status: 413 });
});

t.test('requests share the body budget, get 503 beyond it and release it afterwards', async (t) => {
  const hold = Promise.withResolvers<void>();
  const entered = Promise.withResolvers<void>();
  const guards = [identity()];
  const slow = echoRoute({
    path: '/v1/slow',
    guards,
    handle: async () => {
      entered.resolve();
      await hold.promise;
      return { status: 200, data: null };
    },
  });
  const { port } = await openTestDoor(t, { routes: [slow, echoRoute({ guards })], limits: { bodyBudgetBytes: 1_500 } });
  const as = (id: string) => [`X-User-Id: ${id}`, 'X-User-Role: STUDENT', JSON_TYPE];
  const first = ask(t, port, 'POST', '/v1/slow', as('student-1'), fill(1_000));
  const headers = as('student-2');
  await entered.promise;
  const busy = { status: 503, headers: { 'retry-after': '1' }, json: { code: 'UNAVAILABLE' } };
  t.match(await ask(t, port, 'POST', '/v1/echo/a', headers, fill(600)), busy);
  const wire = openWire(t, port);
  wire.write(`${requestText('POST', '/v1/echo/a', [...headers, CHUNKED])}258\r\n${fill(600)}\r\n0\r\n\r\n`);
  t.match(await wire.reply(), busy, 'chunked');
  const small = () => ask(t, port, 'POST', '/v1/echo/a', headers, fill(400));
  t.match(await small(), { status: 200 }, 'a body within the budget passes');
  for (let n = 0; n < 5; n += 1) {
    const announcing = openWire(t, port);
    announcing.write(`${requestText('POST', '/v1/echo/a', [...headers, 'Content-Length: 1000'])}{`);
  }
  t.match(await small(), { status: 200 }, 'an announced length costs its sender nothing');
  hold.resolve();
  t.match(await first, { status: 200 });
  for (const body of [fill(1_024), '{', '{"more":1}', fill(1_024)])
    await ask(t, port, 'POST', '/v1/echo/a', headers, body);
  const gone = openWire(t, port);
  gone.write(`${requestText('POST', '/v1/echo/a', [...headers, 'Content-Length: 1000'])}${'x'.repeat(900)}`);
  gone.socket.end();
  await gone.closed;
  t.match(await ask(t, port, 'POST', '/v1/echo/a', as('student-1'), fill(1_024)), { status: 200 }, 'all of it is back');
});

function nested(depth: number): string {
  return `${'['.repeat(depth)}${']'.repeat(depth)}`;
}

function nestedValue(depth: number): unknown {
  return depth === 0 ? 1 : [nestedValue(depth - 1)];
}

/** Returns valid JSON of exactly `bytes` bytes. */
function fill(bytes: number): string {
  return `{}${' '.repeat(bytes - 2)}`;
}
