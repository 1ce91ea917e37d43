import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { openReceiver } from '#scripts/sandbox/local-server.ts';
import { until } from '#testing/until.ts';
import { beginLife, type Traffic } from './life.ts';

const traffic: Traffic = { command: (_, send) => send(), fetch: (call) => call() };

t.test('the end of a life cuts its sockets and calls and stops its timers, and no other life notices', async (t) => {
  const greeted = new Map<string, Socket>();
  const server = createServer((socket) => {
    socket.on('error', () => undefined).once('data', (name) => greeted.set(String(name), socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    for (const socket of greeted.values()) socket.destroy();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const called: string[] = [];
  const url = await openReceiver(t, ({ path }, response) => {
    called.push(path);
    if (path !== '/hangs') response.end();
  });

  const noticed: string[] = [];
  const ticks = { dead: 0, alive: 0 };
  /** Dials, calls, pauses and ticks, as the code of a process does. */
  const live = (name: 'dead' | 'alive') => () => {
    const socket = connect(port, '127.0.0.1');
    socket.on('close', () => noticed.push(`${name}: closed`)).write(name);
    const ticking = setInterval(() => {
      ticks[name] += 1;
    }, 1);
    t.teardown(() => clearInterval(ticking));
    const notice = () => noticed.push(`${name}: settled`);
    void fetch(`${url}/hangs`).then(notice, notice);
    void delay(60_000, null, { ref: false }).then(notice, notice);
  };
  const [dead, alive] = [beginLife(traffic), beginLife(traffic)];
  dead.live(live('dead'));
  alive.live(live('alive'));
  await until('both have greeted', () => greeted.size === 2 && called.length === 2);
  await until('both tick', () => ticks.dead > 0 && ticks.alive > 0);

  dead.end();
  await until('its socket is cut', () => greeted.get('dead')?.destroyed);
  const { dead: ticksAtEnd, alive: ticksBefore } = { ...ticks };
  dead.live(() => {
    connect(port, '127.0.0.1').write('from the dead');
    void fetch(`${url}/from-the-dead`);
    setTimeout(() => noticed.push('dead: woken'), 0);
  });
  // The other life dials and calls after the dead one, and is served.
  await alive.live(async () => {
    connect(port, '127.0.0.1').write('later');
    await fetch(`${url}/later`);
    await delay(1);
  });
  await until('the other life goes on', () => greeted.has('later') && ticks.alive > ticksBefore);

  t.strictSame([...greeted.keys()].sort(), ['alive', 'dead', 'later']);
  t.strictSame(called, ['/hangs', '/hangs', '/later']);
  t.equal(ticks.dead, ticksAtEnd, 'no timer fires');
  t.strictSame(noticed, [], 'the dead life notices nothing');
  alive.end();
});
