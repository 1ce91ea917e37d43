import { once } from 'node:events';
import { type AddressInfo, connect } from 'node:net';
import { text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { openLog } from '#infra/log/log.ts';
import { openMetrics } from '#infra/metrics/metrics.ts';
import { openStatusServer } from './status-server.ts';

const OPS_READ_TOKEN = 'read-token-of-a-worker-in-a-test';

/** Opens a production worker's status server. Returns a function that sends bytes to it and returns the whole answer. */
async function open(t: Test, isReady = async () => true): Promise<(bytes: string) => Promise<string>> {
  const { log } = openLog({ level: 'silent', name: 'test' });
  const metrics = openMetrics({ process: false });
  const server = openStatusServer({
    host: '127.0.0.1',
    port: 0,
    metrics,
    log,
    opsReadToken: OPS_READ_TOKEN,
    production: true,
    isReady,
  });
  t.teardown(() => server.close());
  await once(server, 'listening');
  return async (bytes) => {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
    socket.write(bytes);
    return text(socket);
  };
}

const get = (path: string, ...headers: string[]) => request('GET', path, ...headers);
const request = (method: string, path: string, ...headers: string[]) =>
  `${method} ${path} HTTP/1.1\r\n${headers.map((line) => `${line}\r\n`).join('')}Connection: close\r\n\r\n`;

t.test('every reply of a worker forbids a browser to guess its type', async (t) => {
  const send = await open(t);
  for (const [bytes, status] of [
    [get('/healthz', 'Host: a'), 200],
    [get('/readyz', 'Host: a'), 200],
    [get('/metrics', 'Host: a', `Authorization: Bearer ${OPS_READ_TOKEN}`), 200],
    [get('/metrics', 'Host: a', 'Authorization: Bearer other'), 401],
    [get('/other', 'Host: a'), 404],
    [get('/healthz'), 200],
    ['not HTTP\r\n\r\n', 400],
  ] as const) {
    const reply = await send(bytes);
    t.match(reply, new RegExp(`^HTTP/1\\.1 ${status} `), bytes);
    t.match(reply, /\r\nX-Content-Type-Options: nosniff\r\n/, bytes);
  }
});

t.test('/readyz checks again at each call, and HEAD has the same head without a body', async (t) => {
  let isReady = true;
  const send = await open(t, async () => isReady);
  t.match(await send(get('/readyz', 'Host: a')), /^HTTP\/1\.1 200 .*\r\n\r\nready\n$/s);
  t.match(await send(request('HEAD', '/healthz', 'Host: a')), /^HTTP\/1\.1 200 .*\r\n\r\n$/s);
  isReady = false;
  t.match(await send(get('/readyz', 'Host: a')), /^HTTP\/1\.1 503 .*\r\n\r\nunready\n$/s);
  t.match(await send(request('HEAD', '/readyz', 'Host: a')), /^HTTP\/1\.1 503 .*\r\n\r\n$/s);
});
