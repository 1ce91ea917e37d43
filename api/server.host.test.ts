import t, { type Test } from 'tap';
import { openTestDoor, openWire } from '#testing/doors/test-door.ts';

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
