import { once } from 'node:events';
import { mock } from 'node:test';
import t from 'tap';
import { identity } from '#api/http/guards/identity.ts';
import { ask, echoRoute, JSON_TYPE, openTestDoor, openWire, requestText } from '#testing/doors/test-door.ts';
import { until } from '#testing/until.ts';

const guarded = echoRoute({ path: '/v1/guarded', guards: [identity()] });
const timeout = { status: 408, headers: { connection: 'close' }, json: { success: false, code: 'REQUEST_TIMEOUT' } };

t.test('a connection stays usable after an early reply to a small body', async (t) => {
  const { port } = await openTestDoor(t, { routes: [guarded, echoRoute()] });
  const wire = openWire(t, port);
  wire.write(requestText('POST', '/v1/guarded', [JSON_TYPE, 'Content-Length: 20']));
  t.match(await wire.reply(), { status: 401, headers: { connection: 'keep-alive' } }, 'before the body came');
  wire.write(`${'x'.repeat(20)}${requestText('POST', '/v1/echo/a', [JSON_TYPE], '{"name":"next"}')}`);
  t.match(
    await wire.reply(),
    { status: 200, json: { data: { body: { name: 'next' } } } },
    'the body is not taken for a request',
  );
});

t.test('a large unread body closes its connection after the reply, without a reset', async (t) => {
  const { port } = await openTestDoor(t, { routes: [guarded] });
  // The door waits a second for the rest of the body, and a pause of the machine may be longer.
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  const wire = openWire(t, port);
  wire.write(requestText('POST', '/v1/guarded', [JSON_TYPE, 'Content-Length: 100000']));
  t.match(await wire.reply(), { status: 401, headers: { connection: 'close' } });
  const send = (bytes: number) =>
    new Promise<unknown>((resolve) => wire.socket.write('x'.repeat(bytes), (error) => resolve(error ?? 'sent')));
  // Another request between the two halves: a door that closed with the reply would refuse the second half.
  t.equal(await send(50_000), 'sent');
  await ask(t, port, 'GET', '/nowhere');
  t.equal(await send(50_000), 'sent');
  await wire.closed;
});

t.test('two requests in one packet get two replies, in order', async (t) => {
  const { port } = await openTestDoor(t);
  const wire = openWire(t, port);
  wire.write(
    requestText('POST', '/v1/echo/one', [JSON_TYPE], '{}') + requestText('POST', '/v1/echo/two', [JSON_TYPE], '{}'),
  );
  t.match(await wire.reply(), { json: { data: { params: { id: 'one' } } } });
  t.match(await wire.reply(), { json: { data: { params: { id: 'two' } } } });
});

t.test('100 Continue is sent only after the head has passed', async (t) => {
  const { port } = await openTestDoor(t, { routes: [guarded, echoRoute()] });
  const expecting = [JSON_TYPE, 'Expect: 100-continue', 'Content-Length: 2'];
  const refused = openWire(t, port);
  refused.write(requestText('POST', '/v1/guarded', expecting));
  t.match(await refused.reply(), { status: 401, headers: { connection: 'close' } });
  const wire = openWire(t, port);
  wire.write(requestText('POST', '/v1/echo/a', expecting));
  t.match(await wire.reply(), { status: 100 });
  wire.write('{}');
  t.match(await wire.reply(), { status: 200 });
  t.match(await ask(t, port, 'POST', '/v1/echo/a', [JSON_TYPE, 'Expect: nonsense'], '{}'), { status: 200 });
});

t.test('a body that does not arrive in time gets 408', async (t) => {
  const { port, observed } = await openTestDoor(t, { limits: { bodyTimeoutMs: 80 } });
  const wire = openWire(t, port);
  wire.write(`${requestText('POST', '/v1/echo/a', [JSON_TYPE, 'Content-Length: 20'])}{"name"`);
  t.match(await wire.reply(), timeout);
  await wire.closed;
  t.match(observed, [{ status: 408, route: '/v1/echo/:id' }]);
});

t.test('a head that does not arrive in time gets 408, also the second one of a connection', async (t) => {
  const { port } = await openTestDoor(t, { limits: { headTimeoutMs: 100 } });
  const first = openWire(t, port);
  first.write('POST /v1/echo/a HTTP/1.1\r\nHost: te');
  t.match(await first.reply(), timeout);
  await first.closed;
  // On a busy machine the whole head may come too late as well.
  const second = await until('a connection whose head arrived in time', async () => {
    const wire = openWire(t, port);
    wire.write(requestText('POST', '/v1/echo/a'));
    return (await wire.reply()).status === 200 && wire;
  });
  second.write('POST /v1/echo');
  t.match(await second.reply(), timeout);
  const silent = openWire(t, port);
  await silent.closed;
});

t.test('bytes that are not HTTP get the failure envelope and do not stop the door', async (t) => {
  const { port } = await openTestDoor(t);
  const broken = [
    'nonsense\r\n\r\n',
    '\x16\x03\x01\x02\x00\x01\x00\x01',
    'GET / HTTP/1.1\r\nHost: a\r\nBad Header: 1\r\n\r\n',
    `GET / HTTP/1.1\r\nHost: a\r\nX-Long: ${'x'.repeat(20_000)}\r\n\r\n`,
    requestText('POST', '/v1/echo/a', [JSON_TYPE, 'Content-Length: 2', 'Transfer-Encoding: chunked']),
    requestText('POST', '/v1/echo/a', [JSON_TYPE, 'Content-Length: -1']),
    'GET /v1 HTTP/1.1\r\n\r\n',
  ];
  for (const text of broken) {
    const wire = openWire(t, port);
    wire.write(text);
    const reply = await wire.reply().catch((error: Error) => error);
    // The test above checks the reply to a request without a Host header.
    if (!text.startsWith('GET /v1'))
      t.match(reply, { status: 400, json: { code: 'VALIDATION_FAILED', requestId: /.+/ } }, text.slice(0, 40));
    await wire.closed;
  }
  const chunk = openWire(t, port);
  chunk.write(`${requestText('POST', '/v1/echo/a', [JSON_TYPE, 'Transfer-Encoding: chunked'])}zz\r\n`);
  t.match(await chunk.reply(), { status: 400, headers: { connection: 'close' }, json: { code: 'VALIDATION_FAILED' } });
  t.match(await ask(t, port, 'POST', '/v1/echo/a'), { status: 200 });
});

t.test('invalid bytes after a request do not corrupt its reply', async (t) => {
  const hold = Promise.withResolvers<void>();
  const route = echoRoute({
    handle: async () => {
      await hold.promise;
      return { status: 200, data: 'whole' };
    },
  });
  const { port } = await openTestDoor(t, { routes: [route] });
  const wire = openWire(t, port);
  wire.write(`${requestText('POST', '/v1/echo/a')}nonsense\r\n\r\n`);
  setImmediate(hold.resolve);
  t.match(await wire.reply(), { status: 200, json: { data: 'whole' } });
  await wire.closed;
});

t.test('a raw reply that fails midway is cut off, so that it cannot pass as complete', async (t) => {
  const route = echoRoute({
    handle: async () => ({
      kind: 'raw',
      raw: async (response) => {
        response.writeHead(200, { 'Content-Type': 'text/plain', 'Content-Length': 10 });
        response.write('half');
        throw new Error('source broke');
      },
    }),
  });
  const { port, lines } = await openTestDoor(t, { routes: [route] });
  const wire = openWire(t, port);
  wire.write(requestText('POST', '/v1/echo/a'));
  await t.rejects(wire.reply(), /closed after/);
  t.ok(lines().some((line) => line.msg === 'request failed'));
});

t.test('a stream that its client leaves is counted with the status that was sent', async (t) => {
  const route = echoRoute({
    handle: async () => ({
      kind: 'raw',
      raw: async (response) => {
        response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Content-Length': 10 });
        response.write('half');
        await once(response, 'close');
      },
    }),
  });
  const { port, observed } = await openTestDoor(t, { routes: [route] });
  const wire = openWire(t, port);
  wire.write(requestText('POST', '/v1/echo/a'));
  await once(wire.socket, 'data');
  wire.socket.destroy();
  await until('the stream is counted', () => observed.length > 0);
  t.match(observed, [{ status: 200 }]);
});

t.test('closing finishes running requests, ends idle connections and refuses new ones', async (t) => {
  const running = Promise.withResolvers<void>();
  const hold = Promise.withResolvers<void>();
  const route = echoRoute({
    handle: async () => {
      running.resolve();
      await hold.promise;
      return { status: 200, data: 'done' };
    },
  });
  const { port, door, draining } = await openTestDoor(t, { routes: [route] });
  const [idle, busy, unused] = [openWire(t, port), openWire(t, port), openWire(t, port)];
  idle.write(requestText('GET', '/nowhere'));
  t.match(await idle.reply(), { headers: { connection: 'keep-alive' } });
  busy.write(requestText('POST', '/v1/echo/a'));
  await running.promise;
  draining.abort();
  const whole = door.close(10_000);
  await Promise.all([idle.closed, unused.closed]);
  await t.rejects(ask(t, port, 'POST', '/v1/echo/a'));
  hold.resolve();
  t.match(await busy.reply(), { status: 200, headers: { connection: 'close' }, json: { data: 'done' } });
  t.equal(await whole, true);
});

t.test('closing aborts requests that do not end in time, then cuts them off', async (t) => {
  const running = Promise.withResolvers<AbortSignal>();
  const route = echoRoute({
    handle: ({ signal }) => {
      running.resolve(signal);
      return new Promise(() => undefined);
    },
  });
  const { port, door } = await openTestDoor(t, { routes: [route] });
  const wire = openWire(t, port);
  wire.write(requestText('POST', '/v1/echo/a'));
  const signal = await running.promise;
  t.equal(await door.close(20), false);
  t.ok(signal.aborted);
  await wire.closed;
});

t.test('closing also waits for a request whose client has left', async (t) => {
  const running = Promise.withResolvers<{ signal: AbortSignal; stop: AbortSignal }>();
  const hold = Promise.withResolvers<void>();
  const route = echoRoute({
    handle: async ({ signal, stop }) => {
      running.resolve({ signal, stop });
      await hold.promise;
      return { status: 200, data: null };
    },
  });
  const { port, door, observed } = await openTestDoor(t, { routes: [route] });
  const wire = openWire(t, port);
  wire.write(requestText('POST', '/v1/echo/a'));
  const { signal, stop } = await running.promise;
  const left = once(signal, 'abort');
  wire.socket.destroy();
  await left;
  let isClosed = false;
  const whole = door.close(10_000).finally(() => {
    isClosed = true;
  });
  await t.rejects(ask(t, port, 'POST', '/v1/echo/a'), 'the server is closed');
  t.notOk(isClosed);
  t.notOk(stop.aborted, 'the client does not stop the work');
  hold.resolve();
  t.equal(await whole, true);
  t.match(observed, [{ status: 499 }]);
});

t.test('closing finally stops work whose client has left', async (t) => {
  const running = Promise.withResolvers<void>();
  const stopped = Promise.withResolvers<void>();
  const route = echoRoute({
    handle: async ({ stop }) => {
      running.resolve();
      await once(stop, 'abort');
      stopped.resolve();
      return { status: 200, data: null };
    },
  });
  const { port, door } = await openTestDoor(t, { routes: [route] });
  const wire = openWire(t, port);
  wire.write(requestText('POST', '/v1/echo/a'));
  await running.promise;
  wire.socket.destroy();
  t.equal(await door.close(20), false);
  await stopped.promise;
});

t.test('a request that closing aborts gets 503 with Retry-After', async (t) => {
  const running = Promise.withResolvers<void>();
  const route = echoRoute({
    handle: async ({ signal }) => {
      running.resolve();
      await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
      return { status: 200, data: null };
    },
  });
  const { port, door } = await openTestDoor(t, { routes: [route] });
  const wire = openWire(t, port);
  wire.write(requestText('POST', '/v1/echo/a'));
  await running.promise;
  t.equal(await door.close(20), false);
  t.match(await wire.reply(), { status: 503, headers: { 'retry-after': '1' }, json: { code: 'UNAVAILABLE' } });
});

t.test('listen rejects if the port is in use', async (t) => {
  const { port } = await openTestDoor(t);
  const other = await openTestDoor(t, {});
  await other.door.close(0);
  await t.rejects(other.door.listen(port, '127.0.0.1'), { code: 'EADDRINUSE' });
});
