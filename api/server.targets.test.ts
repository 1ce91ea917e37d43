import { once } from 'node:events';
import { connect } from 'node:net';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { echoRoute, openTestDoor, openWire } from '#testing/doors/test-door.ts';

const routes = [
  echoRoute({ path: '/v1/a' }),
  echoRoute({ path: '/v1/a/:id' }),
  echoRoute({ method: 'GET', path: '/v1/a/:id/b', alsoHead: true }),
];
const { port } = await openTestDoor(t, { routes });

/** Sends the bytes on a connection of their own. Returns the whole reply: its head in lower case, and its body. */
async function tell(text: string): Promise<{ head: string; body: string }> {
  const socket = connect({ port, host: '127.0.0.1' });
  const parts: Buffer[] = [];
  socket.on('data', (part) => parts.push(part));
  socket.write(Buffer.from(text, 'latin1'));
  await once(socket, 'close');
  const [head = '', body = ''] = Buffer.concat(parts).toString().split('\r\n\r\n', 2);
  return { head: head.toLowerCase(), body };
}

const lines = (...all: string[]) => `${[...all, 'Connection: close', '', ''].join('\r\n')}`;

/** Returns the status of a request and the code of its envelope. */
async function asked(method: string, target: string, host = 'test'): Promise<string> {
  const { head, body } = await tell(lines(`${method} ${target} HTTP/1.1`, `Host: ${host}`));
  return [/^http\/1\.1 (\d+)/.exec(head)?.[1], JSON.parse(body).code].join(' ').trim();
}

t.test('a Host or target that restify itself cannot parse gets a reply', async (t) => {
  for (const host of ['[', ']:80', 'a b', 'http://', '%']) {
    for (const target of ['/v1/a', '/v1/nowhere', '/v1/a/x/b', '//', '*', 'http://[']) {
      t.equal(await asked('POST', target, host), '400 VALIDATION_FAILED', `${target}, Host: ${host}`);
    }
  }
  for (const target of ['http://[', 'http://[/v1/a', 'http://', 'https://a:b:c/v1/a']) {
    t.equal(await asked('POST', target), '400 VALIDATION_FAILED', target);
  }
  for (const target of ['//', '///', '//v1/a', '//[', '//[/v1/a', '*', 'https://x:99999']) {
    t.equal(await asked('POST', target), '404 ROUTE_NOT_FOUND', target);
  }
  t.equal(await asked('OPTIONS', '*'), '404 ROUTE_NOT_FOUND');
  t.equal(await asked('POST', 'http://x:99999/v1/a'), '200');
});

t.test('dot segments, encoded slashes and fragments are not resolved', async (t) => {
  for (const target of [
    '/v1/a/../a',
    '/v1/./a',
    '/v1/b/..',
    '/v1/a/',
    '/v1%2Fa',
    '/v1/%61',
    '/v1/a%2F..',
    '/v1/a/%2e%2e/a',
    '/v1/a%23',
    '/v1/a#x',
    '/v1/a\\x',
    '/v1;x/a',
  ])
    t.equal(await asked('POST', target), '404 ROUTE_NOT_FOUND', target);
});

t.test('the reply to a path with other methods carries nothing of restify', async (t) => {
  const { head, body } = await tell(lines('PUT /v1/a/x/b HTTP/1.1', 'Host: test', 'X-Request-Id: r-1'));
  t.same(
    head.split('\r\n').filter((line) => !line.startsWith('date:')),
    [
      'http/1.1 405 method not allowed',
      'content-type: application/json; charset=utf-8',
      `content-length: ${body.length}`,
      'x-request-id: r-1',
      'cache-control: no-store',
      'x-content-type-options: nosniff',
      'allow: get, head',
      'connection: close',
    ],
  );
  t.match(JSON.parse(body), { success: false, code: 'METHOD_NOT_ALLOWED', requestId: 'r-1' });
});

const piece = fc.oneof(
  fc.constantFrom('/', '//', '/v1', '/a', '/x', '/b', '/..', '/.', '%2F', '%2e', '%', '%00', '%ff', '%5B'),
  fc.constantFrom('[', ']', ':', '@', '?', '#', ';', '*', '\\', '{', 'http://', 'https://[', 'HTTP:', '::1', '\u00ff'),
  fc.string({ maxLength: 6 }),
);
const target = fc.array(piece, { maxLength: 6 }).map((parts) => parts.join('').replace(/[\0-\x20\x7f]/g, '') || '/');
const known = fc.constantFrom('/v1/a', '/v1/a/x', '/v1/a/x/b', '/v1/a/..', '*', '//', 'http://[', 'http://[/v1/a');
const method = fc.constantFrom(
  'GET',
  'POST',
  'HEAD',
  'OPTIONS',
  'PUT',
  'DELETE',
  'TRACE',
  'PROPFIND',
  'M-SEARCH',
  'QUERY',
);
const value = fc.oneof(
  fc.constantFrom(
    '[',
    ']',
    '*',
    '*/*',
    '1.0.0',
    '~1',
    '>=1 <2',
    'text/html',
    'application/xml',
    'websocket',
    'h2c',
    '::',
    'a:b:c',
  ),
  fc.string({ maxLength: 8 }).map((text) => text.replace(/[^\x20-\x7e]/g, '')),
);
const header = fc.tuple(
  fc.constantFrom(
    'Accept',
    'Accept-Version',
    'X-Api-Version',
    'Upgrade',
    'Content-Type',
    'X-Forwarded-Proto',
    'Expect',
  ),
  value,
);

t.test('random targets, methods and headers get an envelope of ours, and the process lives', async (t) => {
  const seen = new Set<string>();
  const property = fc.asyncProperty(
    fc.oneof(target, known),
    method,
    fc.oneof(value, fc.constant('test')),
    fc.array(header, { maxLength: 4 }),
    async (target, method, host, headers) => {
      const sent = lines(`${method} ${target} HTTP/1.1`, `Host: ${host}`, ...headers.map((one) => one.join(': ')));
      const { head, body } = await tell(sent);
      const [, status = ''] = /^http\/1\.1 (?:100 continue\r\n\r\nhttp\/1\.1 )?(\d+)/.exec(head) ?? [];
      seen.add(status);
      if (method !== 'HEAD') {
        const { success, code, requestId } = JSON.parse(body);
        if (status === '200' ? !success : success || code === undefined || requestId === undefined) return false;
      }
      return ['200', '400', '404', '405', '415'].includes(status) && !/^server:/m.test(head);
    },
  );
  await fc.assert(property, { numRuns: 1_500 });
  t.ok(seen.isSupersetOf(new Set(['200', '404', '405'])), `statuses: ${[...seen].sort().join(' ')}`);
});

/** Sends a request line and these lines of its head, and returns the reply. */
async function send(t: Test, port: number, first: string, ...lines: string[]) {
  const wire = openWire(t, port);
  wire.write(`${[first, ...lines].join('\r\n')}\r\n\r\n`);
  return wire.reply();
}

const [NOWHERE, ECHO] = ['GET /v1/nowhere HTTP/1.1', 'POST /v1/echo/a HTTP/1.1'];
const refused = {
  status: 400,
  headers: { 'x-request-id': String, connection: 'close' },
  json: { success: false, code: 'VALIDATION_FAILED', message: /host/i },
};

t.test('a request without a Host, with two or with an invalid one is refused on every route', async (t) => {
  const { port } = await openTestDoor(t);
  const faults = [
    [],
    ['Host: a', 'Host: b'],
    ['Host: a', 'Host: a'],
    ['Host: ', 'host: a'],
    ['Host: x y'],
    ['Host: a, b'],
    ['Host: user@a'],
    ['Host: http://a'],
    ['Host: a/b'],
    ['Host: a?b'],
    ['Host: :80'],
    ['Host: a:b'],
    ['Host: a:80:80'],
    ['Host: ::1'],
    ['Host: [::1'],
    ['Host: [:::1]'],
    ['Host: [localhost]'],
    ['Host: a%2'],
    ['Host: a\\b'],
    ['Host: trường.vn'],
  ];
  for (const lines of faults) {
    for (const first of [NOWHERE, ECHO]) t.match(await send(t, port, first, ...lines), refused, lines.join());
  }
  const targets = ['http:///v1/nowhere', 'http://user@a/v1/nowhere', 'http://a:b/v1/nowhere'];
  for (const target of targets) t.match(await send(t, port, `GET ${target} HTTP/1.1`, 'Host: a'), refused, target);
});

t.test('a request with one valid or empty Host is served, and one of HTTP/1.0 without', async (t) => {
  const { port } = await openTestDoor(t);
  const valid = [
    '',
    'a',
    'A.example:3000',
    'a:',
    'web_1',
    'a%20b',
    '127.0.0.1:1',
    '[::1]:3000',
    '[2001:db8::192.0.2.1]',
  ];
  for (const host of valid) t.match(await send(t, port, ECHO, `Host: ${host}`), { status: 200 }, host);
  t.match(await send(t, port, 'GET /v1/nowhere HTTP/1.0'), { status: 404 });
  t.match(await send(t, port, 'POST http://b:80/v1/echo/a HTTP/1.1', 'Host: a'), { status: 200 }, 'an absolute target');
});

t.test('a process that serves loopback only answers 421 to every other host', async (t) => {
  const { port } = await openTestDoor(t, { loopbackOnly: true });
  const own = [
    '127.0.0.1',
    `127.0.0.1:${port}`,
    '127.8.9.10',
    'localhost',
    'LocalHost:80',
    'web:3000',
    '[::1]',
    `[::1]:${port}`,
    '',
  ];
  for (const host of own) t.match(await send(t, port, ECHO, `Host: ${host}`), { status: 200 }, host);
  const foreign = [
    'evil.example',
    `evil.example:${port}`,
    '127.0.0.1.evil.example',
    'localhost.evil.example',
    'ai.',
    '0.0.0.0',
  ];
  for (const host of [...foreign, '192.0.2.1', '[::]', '[::ffff:127.0.0.1]', '128.0.0.1']) {
    for (const first of [NOWHERE, ECHO])
      t.match(
        await send(t, port, first, `Host: ${host}`),
        { status: 421, json: { code: 'MISDIRECTED_REQUEST' } },
        host,
      );
  }
  const rebound = 'POST http://evil.example/v1/echo/a HTTP/1.1';
  t.match(await send(t, port, rebound, 'Host: 127.0.0.1'), { status: 421 }, 'an absolute target');
});
