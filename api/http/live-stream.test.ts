import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import type { Call } from '#api/route.ts';
import { countedAs, networksOf } from '#infra/net/ip-address.ts';
import { openReceiver } from '#scripts/sandbox/local-server.ts';
import { isRejection } from '#shared/kernel/errors.ts';
import { openStream } from '#testing/clients/open-stream.ts';
import { echoRoute, openTestDoor } from '#testing/doors/test-door.ts';
import { gate, until } from '#testing/until.ts';
import { type EventStream, openEventStream, type StreamOptions } from './event-stream.ts';
import { identity } from './guards/identity.ts';
import { type Beginning, liveStream, openStreams, type Streams } from './live-stream.ts';
import { openStreamSlots } from './stream-slots.ts';

/** Serves one live stream that begins with `begin`. Returns its URL. */
async function served(t: Test, streams: Streams, begin: () => Promise<Beginning>): Promise<string> {
  return openReceiver(t, async (_call, response) => {
    const call = { peer: '127.0.0.1', headers: {} };
    const reply = await liveStream({
      streams,
      now: Date.now,
      holder: 'an',
      call,
      listen: () => () => undefined,
      begin,
    });
    if (isRejection(reply)) response.writeHead(429).end();
    else await reply.raw(response);
  });
}

const quiet: Beginning = {
  kind: 'follow',
  async follow(stream, wakeSignal) {
    stream.send({ event: 'snapshot', data: {}, id: 'first' });
    while (stream.isLive()) await wakeSignal.wait(60_000);
  },
};

t.test('a process allows each actor five streams of ten minutes', async (t) => {
  const { slots, maxAgeMs } = openStreams(new AbortController().signal);
  t.equal(maxAgeMs, 600_000);
  const taken = Array.from({ length: 6 }, () => slots.acquire({ actorId: 'an', networks: [] }, () => undefined));
  t.strictSame(taken.map(isRejection), [false, false, false, false, false, true]);
  t.match(taken[5], { rejected: 'RATE_LIMITED', retryAfter: 15 });
  t.notOk(
    isRejection(slots.acquire({ actorId: 'binh', networks: [] }, () => undefined)),
    'another actor has streams of its own',
  );
});

t.test('a stream that reaches its maximum age ends cleanly and releases its place', async (t) => {
  const streams = { ...openStreams(new AbortController().signal), maxAgeMs: 50 };
  const url = await served(t, streams, async () => quiet);
  for (let round = 0; round < 7; round++) {
    const stream = await openStream(t, url, {});
    t.match(await stream.next('snapshot'), { lastEventId: 'first' });
    await until('the stream ended', () => stream.ended());
    t.match(stream.text(), /\n\n$/, 'after a whole event');
  }
});

t.test('a stream at its maximum age completes the event that it has begun', async (t) => {
  const streams = { ...openStreams(new AbortController().signal), maxAgeMs: 20 };
  const grown = gate();
  const url = await served(t, streams, async () => ({
    kind: 'follow',
    async follow(stream) {
      stream.send({ event: 'notification', data: { n: 1 } });
      await until('the stream has reached its maximum age', () => !stream.isLive());
      t.equal(stream.isOpen(), true);
      await grown.opened;
      stream.send({ event: 'notification', data: { n: 2 }, id: 'both' });
    },
  }));
  const stream = await openStream(t, url, {});
  await stream.next('notification');
  grown.open();
  t.match(await stream.next('notification'), { data: { n: 2 }, lastEventId: 'both' });
  await until('the stream ended', () => stream.ended());
});

t.test('a stream that ends before its maximum age leaves no timer', async (t) => {
  const draining = new AbortController();
  const url = await served(t, openStreams(draining.signal), async () => quiet);
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  const before = timers();
  const stream = await openStream(t, url, {});
  await stream.next('snapshot');
  draining.abort();
  await until('the stream ended', () => stream.ended());
  await until('the timers of the stream are gone', () => timers() <= before);
  t.pass();
});

/** Opens a door with four streams in all, behind a trusted proxy. Returns a function that opens a stream of an actor. */
async function openStreamDoor(t: Test) {
  const trustedProxies = ['127.0.0.1'];
  const streams = {
    ...openStreams(new AbortController().signal, undefined, trustedProxies),
    slots: openStreamSlots({ perActor: 5, inAll: 4 }),
  };
  const route = echoRoute({
    method: 'GET',
    path: '/v1/stream',
    guards: [identity()],
    handle: (call: Call) =>
      liveStream({
        streams,
        now: Date.now,
        holder: call.identity.actor?.id ?? '',
        call,
        listen: () => () => undefined,
        begin: async () => ({
          kind: 'follow',
          async follow(stream, wakeSignal) {
            stream.send({ event: 'snapshot', data: {}, id: 'first' });
            while (stream.isLive()) await wakeSignal.wait(60_000);
          },
        }),
      }),
  });
  const { port } = await openTestDoor(t, { routes: [route], trustedProxies });
  return (actorId: string, address: string) =>
    openStream(t, `http://127.0.0.1:${port}/v1/stream`, {
      'x-user-id': actorId,
      'x-user-role': 'STUDENT',
      'x-forwarded-for': address,
    });
}

t.test('a stream that makes room for one from elsewhere ends after a whole event', async (t) => {
  const follow = await openStreamDoor(t);
  const crowd = [];
  for (let n = 1; n <= 4; n += 1) {
    const stream = await follow(`stranger-${n}`, `2001:db8:a:${n}::1`);
    await stream.next('snapshot');
    crowd.push(stream);
  }
  const newcomer = await follow('student-1', '198.51.100.7');
  await newcomer.next('snapshot');
  const [oldest, ...others] = crowd;
  await until('the oldest stream of the fullest network ended', () => oldest?.ended() === true);
  t.match(oldest?.text(), /\n\n$/, 'after a whole event');
  t.strictSame(
    others.map((stream) => stream.ended()),
    [false, false, false],
  );
  t.equal(
    (await follow('stranger-5', '2001:db8:a:5::1')).status,
    503,
    'the fullest network takes no place from others',
  );
  t.equal(newcomer.ended(), false);
});

/** Opens the slots of a process, and notes whose streams end to make room. */
function openCounted(limits: { perActor: number; inAll: number }) {
  const slots = openStreamSlots(limits);
  const ended: string[] = [];
  return {
    slots,
    ended,
    acquire: (actorId: string, address = '203.0.113.7') =>
      slots.acquire({ actorId, networks: networksOf(countedAs(address)) }, () => ended.push(actorId)),
  };
}

const isOpen = (acquired: unknown) => !isRejection(acquired);

t.test('stream places are limited per actor and in all, and each is released once', async (t) => {
  const { acquire } = openCounted({ perActor: 2, inAll: 3 });
  const first = acquire('an');
  t.ok(isOpen(first));
  acquire('an', '192.0.2.1');
  t.match(acquire('an'), { rejected: 'RATE_LIMITED', retryAfter: 15 }, 'the caller has all places of one actor');
  acquire('binh');
  t.match(acquire('chi'), { rejected: 'UNAVAILABLE', retryAfter: 15 }, 'each of the others has one place');
  if (isRejection(first)) return;
  first();
  first();
  t.ok(isOpen(acquire('an')), 'a released place can be acquired');
  t.match(acquire('chi'), { rejected: 'UNAVAILABLE' }, 'once only');
});

t.test('a thousand accounts of one network shut out neither a school nor a newcomer from elsewhere', async (t) => {
  const { slots, ended, acquire } = openCounted({ perActor: 5, inAll: 5_000 });
  const school = '198.51.100.7';
  for (let n = 0; n < 2_000; n += 1) t.ok(isOpen(acquire(`student-${n}`, school)) || n);

  // Each account comes from a /64 of its own.
  const attack = () => {
    for (let n = 0; n < 5_000; n += 1) acquire(`stranger-${n % 1_000}`, `2001:db8:a:${(n % 1_000).toString(16)}::1`);
  };
  attack();
  t.equal(slots.open(), 5_000);
  t.ok(
    ended.every((actor) => actor.startsWith('stranger-')),
    'the attack takes places from itself alone',
  );

  for (let n = 0; n < 300; n += 1) {
    if (!isOpen(acquire(`pupil-${n}`, `192.0.2.${n % 250}`))) t.fail(`newcomer ${n}`);
    if (!isOpen(acquire(`late-${n}`, school))) t.fail(`student ${n} of the school`);
  }
  attack();
  t.equal(slots.open(), 5_000);
  t.strictSame(
    ended.filter((actor) => !actor.startsWith('stranger-')),
    [],
  );
});

t.test('of streams behind one address, the actor with most streams makes room', async (t) => {
  const { slots, ended, acquire } = openCounted({ perActor: 5, inAll: 10 });
  for (let n = 0; n < 10; n += 1) acquire(n % 2 === 0 ? 'an' : 'binh');
  t.ok(isOpen(acquire('chi')));
  t.strictSame(ended, ['an'], 'its oldest stream');
  t.ok(isOpen(acquire('chi')));
  t.strictSame(ended, ['an', 'binh']);
  t.equal(slots.open(), 10);
});

t.test('equally full networks do not take the places of each other again and again', async (t) => {
  const { ended, acquire } = openCounted({ perActor: 5, inAll: 4 });
  for (const address of ['192.0.2.1', '198.51.100.1', '203.0.113.1', '2001:db8::1']) acquire(address, address);
  t.match(acquire('new', '192.0.2.2'), { rejected: 'UNAVAILABLE' });
  t.match(acquire('new', '100.64.0.1'), { rejected: 'UNAVAILABLE' });
  t.strictSame(ended, []);
});

const LARGE = { event: 'notification', data: { text: 'x'.repeat(100_000) } };

/** Connects a client that reads nothing until the test makes it read. `open` opens the stream to it. */
async function openTo(t: Test, options: Partial<StreamOptions> = {}) {
  const replied = Promise.withResolvers<ServerResponse>();
  const server = createServer((_request, response) => replied.resolve(response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  client.pause();
  client.on('error', () => undefined);
  client.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  t.teardown(() => {
    client.destroy();
    server.close();
  });
  const response = await replied.promise;
  const open = () =>
    openEventStream(response, {
      draining: new AbortController().signal,
      heartbeatMs: 60_000,
      heartbeat: () => ({ event: 'heartbeat', data: {} }),
      ...options,
    });
  return { client, response, open };
}

function readAll(client: Socket): () => number {
  let bytes = 0;
  client.on('data', (chunk) => {
    bytes += chunk.length;
  });
  client.resume();
  return () => bytes;
}

t.test('a client that leaves more unread than the limit is cut off', async (t) => {
  const { open, response } = await openTo(t);
  const stream = open();
  for (let sent = 0; sent < 200 && stream.isOpen(); sent++) stream.send(LARGE);
  t.equal(stream.isOpen(), false);
  await stream.ended;
  t.ok(response.destroyed);
});

t.test('a client that reads gets far more than the limit if the sender awaits `taken`', async (t) => {
  const { open, client } = await openTo(t);
  const stream = open();
  const bytes = readAll(client);
  for (let sent = 0; sent < 50; sent++) {
    stream.send(LARGE);
    await stream.drained();
  }
  t.ok(stream.isOpen());
  await until('all has come', () => bytes() > 50 * 100_000);
});

t.test('`taken` waits `timeoutMs` for a client that reads nothing, then cuts it off', async (t) => {
  const { open } = await openTo(t, { timeoutMs: 100 });
  const stream = open();
  await fill(stream);
  await stream.drained();
  t.equal(stream.isOpen(), false);
});

t.test('the end of a stream resolves a pending `taken`', async (t) => {
  const { open, client } = await openTo(t);
  const stream = open();
  await fill(stream);
  const waiting = stream.drained();
  client.destroy();
  await waiting;
  await stream.ended;
});

t.test('a stream to a client that left before it was opened has already ended', async (t) => {
  const { open, client, response } = await openTo(t);
  client.destroy();
  await until('the server has noticed', () => response.destroyed);
  const stream = open();
  await stream.ended;
  t.equal(stream.isOpen(), false);
});

/** Sends until the socket is full, but stays below the limit of unread bytes. */
async function fill(stream: EventStream): Promise<void> {
  const small = { event: 'notification', data: { text: 'x'.repeat(20_000) } };
  for (let full = false; !full; ) {
    stream.send(small);
    const turn = new Promise<string>((resolve) => setImmediate(resolve, 'turn'));
    full = (await Promise.race([stream.drained().then(() => 'taken'), turn.then(() => turn)])) === 'turn';
  }
}
