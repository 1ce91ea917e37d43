import t, { type Test } from 'tap';
import { echoRoute, openTestDoor, openWire, requestText, type Wire } from '#testing/doors/test-door.ts';
import { until } from '#testing/until.ts';

const hello = requestText('POST', '/v1/echo/a');
const ok = { status: 200 };

async function openDoor(t: Test, maxConnections: number, trustedProxies: readonly string[] = []) {
  const { port, dropped } = await openTestDoor(t, {
    routes: [echoRoute()],
    limits: { maxConnections },
    trustedProxies,
  });
  return { dropped, open: () => openWire(t, port) };
}

async function speak(wire: Wire) {
  wire.write(hello);
  return wire.reply();
}

t.test('connections that send nothing make room for new ones, the oldest first', async (t) => {
  const { dropped, open } = await openDoor(t, 4);
  const working = open();
  t.match(await speak(working), ok);
  const silent = [open(), open(), open(), open()];
  await silent[0]?.closed;
  const next = open();
  t.match(await speak(next), ok, 'a new client');
  t.match(await speak(working), ok, 'a client that has sent a request stays');
  await silent[1]?.closed;
  t.same(dropped, ['silent', 'silent', 'silent']);
});

t.test('a connection beyond the limit is closed without a reply', async (t) => {
  const { dropped, open } = await openDoor(t, 2);
  const first = open();
  t.match(await speak(first), ok);
  t.match(await speak(open()), ok);
  await open().closed;
  t.same(dropped, ['full']);
  first.socket.destroy();
  await until('there is room again', async () => {
    const status = await speak(open()).then(
      (reply) => reply.status,
      () => null,
    );
    return status === 200;
  });
});

t.test('one address holds at most an eighth of the connections, unless it is a trusted proxy', async (t) => {
  const behindProxies = await openDoor(t, 16, ['10.0.0.0/8']);
  const [first, second] = [behindProxies.open(), behindProxies.open()];
  t.match(await speak(first), ok);
  t.match(await speak(second), ok);
  await behindProxies.open().closed;
  t.same(behindProxies.dropped, ['address']);
  first.socket.destroy();
  await until('the share is released', async () => {
    const reply = await speak(behindProxies.open()).catch(() => null);
    return reply?.status === 200;
  });

  for (const proxies of [[], ['127.0.0.1']]) {
    const door = await openDoor(t, 16, proxies);
    for (let n = 0; n < 10; n += 1) t.match(await speak(door.open()), ok);
    t.same(door.dropped, []);
  }
});
