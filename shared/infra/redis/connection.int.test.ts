import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { createServer as createTlsServer, getCACertificates, setDefaultCACertificates } from 'node:tls';
import t, { type Test } from 'tap';
import { freePort } from '#scripts/start/services/port.ts';
import { type CapturedLog, captureLog } from '#testing/captured-log.ts';
import { selfSigned } from '#testing/self-signed.ts';
import { type OwnRedis, ownRedis } from '#testing/stores/own-redis.ts';
import { until } from '#testing/until.ts';
import { redisProbe } from './connection.ts';
import { openDoorbells } from './doorbell.ts';
import { answerDoorbell } from './doorbell-listener.ts';
import type { LinkLog } from './link.ts';
import { openReplySender, openReplyWaiters } from './replies.ts';

/** Returns all lines of a log as one text. */
const textOf = ({ lines }: CapturedLog) =>
  lines.map(({ message, fields }) => `${message} ${JSON.stringify(fields)}`).join('\n');

/** Opens every kind of Redis connection of this folder, at one address. */
function openAll(redisUrl: string, log: LinkLog) {
  const received: string[] = [];
  const bells = openDoorbells({ redisUrl, log, boundMs: 60_000 });
  const listener = answerDoorbell(
    { redisUrl, log, queue: 'grading', concurrency: 2 },
    async ({ id }) => void received.push(id),
  );
  const sender = openReplySender({ redisUrl, log });
  const waiters = openReplyWaiters({ redisUrl, log });
  const probe = redisProbe({ redisUrl, log });
  return {
    /** Resolves once rings, replies and the probe all work. */
    async work(): Promise<void> {
      await until('a ring is accepted', () => bells.ring({ queue: 'grading', _id: 'c-1', key: 'k' }, 1));
      await until('the ring is received', () => received.includes('c-1'));
      const waiter = waiters.register('c-1');
      const replied = waiter.settled({ timeoutMs: 3_600_000, pollMs: 3_600_000, isSettled: async () => false });
      const sending = setInterval(() => sender.send('c-1'), 20);
      await replied;
      clearInterval(sending);
      await until('a ping succeeds', () =>
        probe.ping().then(
          () => true,
          () => false,
        ),
      );
    },
    probe,
    async close(): Promise<void> {
      await Promise.all([bells.close(), listener.close(100), sender.close(), waiters.close(), probe.close()]);
    },
  };
}

t.test('connects with a password and as a restricted user, and logs no secret', async (t) => {
  for (const [allow, auth, wrong] of [
    [['CONFIG', 'SET', 'requirepass', 'pass-secret'], ':pass-secret@', ':bad-secret@'],
    [['ACL', 'SETUSER', 'app', 'on', '>app-secret', '~*', '&*', '+@all'], 'app:app-secret@', 'app:bad-secret@'],
    // The permissions that docs/operating.md recommends. Redis 6.2 allows every channel by default.
    [
      [
        'ACL',
        'SETUSER',
        'app',
        'on',
        '>app-secret',
        ...['~examhall:*', 'resetchannels', '&examhall:*'],
        '+@all',
        '-@dangerous',
      ],
      'app:app-secret@',
      'app:bad-secret@',
    ],
  ] as const) {
    const redis = await ownRedis();
    const [name, ...args] = allow;
    await redis.command(name, ...args);
    const log = captureLog();
    const stranger = openAll(redis.url.replace('//', `//${wrong}`), log);
    const all = openAll(redis.url.replace('//', `//${auth}`), log);
    await all.work();
    await until(
      'each link has logged the lost connection',
      () => textOf(log).split('Redis connection lost').length > 5,
    );
    t.notMatch(textOf(log), /secret/);
    await Promise.all([all.close(), stranger.close()]);
    await redis.close();
  }
});

t.test('connects by TLS with a server name, and to a numbered database', async (t) => {
  const redis = await ownRedis();
  const { key, cert } = selfSigned();
  const trusted = getCACertificates('default');
  setDefaultCACertificates([...trusted, cert]);
  const serverNames = new Set<unknown>();
  const proxy = createTlsServer({ key, cert }, (client) => {
    serverNames.add(client.servername);
    const server = connect(Number(new URL(redis.url).port), '127.0.0.1');
    client.on('error', () => server.destroy()).on('close', () => server.destroy());
    server.on('error', () => client.destroy()).on('close', () => client.destroy());
    client.pipe(server).pipe(client);
  });
  const port = await listen(proxy);
  const all = openAll(`rediss://localhost:${port}/4`, captureLog());
  t.teardown(async () => {
    await all.close();
    proxy.close();
    setDefaultCACertificates(trusted);
    await redis.close();
  });
  await all.work();
  t.same([...serverNames], ['localhost'], 'the handshake names the server');
  t.match(await redis.command('CLIENT', 'LIST'), /db=4[^\n]*cmd=brpoplpush/);
});

/**
 * An error event without a listener would end this process, and tap would report it. Some replies contain two errors, because a
 * library that removes its listener after the first error would throw the second.
 */
for (const [name, answer] of [
  ['refuses everything, twice per answer', '-NOAUTH Authentication required.\r\n-ERR no\r\n'],
  ['speaks HTTP', 'HTTP/1.1 400 Bad Request\r\n\r\n'],
  ['answers nonsense in the right protocol', ':1\r\n:2\r\n:3\r\n'],
  ['cuts every connection', ''],
  ['accepts and stays silent', null],
] as const) {
  t.test(`a server that ${name} does not end the process and is not called after close`, async (t) => {
    let accepted = 0;
    const server = createServer((socket) => {
      accepted += 1;
      socket.on('error', () => {});
      socket.on('data', () => {
        if (answer === '') socket.destroy();
        else if (answer !== null) socket.write(answer);
      });
    });
    const port = await listen(server);
    t.teardown(() => void server.close());
    const log = captureLog();
    const all = openAll(`redis://:secret@127.0.0.1:${port}`, log);
    const lostCount = () => textOf(log).split('Redis connection lost').length - 1;
    // Each of the five links has lost its connection, and the links have connected again.
    await until('five links have connected and lost the connection', () => lostCount() >= 5 && accepted >= 12);
    await all.close();
    t.equal(lostCount(), 5, 'each of the five links logs the lost connection once');
    let idlePolls = 0;
    await until('no connection is left open', async () => {
      // One check every 5 ms: no connection for a fifth of a second.
      idlePolls = (await connections(server)) === 0 ? idlePolls + 1 : 0;
      return idlePolls === 40;
    });
    t.pass('no link opens a new connection');
  });
}

t.test(
  'a server that refuses only the blocking connection, with two errors in one reply, does not end the process',
  async (t) => {
    const redis = await ownRedis();
    let accepted = 0;
    const server = createServer((socket) => {
      accepted += 1;
      socket.on('error', () => {});
      if (accepted % 2 === 0) {
        socket.on('data', () => socket.write('-ERR max number of clients reached\r\n-ERR no\r\n'));
        return;
      }
      const upstream = connect(Number(new URL(redis.url).port), '127.0.0.1');
      upstream.on('error', () => socket.destroy()).on('close', () => socket.destroy());
      socket.on('close', () => upstream.destroy());
      socket.pipe(upstream).pipe(socket);
    });
    const port = await listen(server);
    const redisUrl = `redis://127.0.0.1:${port}`;
    const listener = answerDoorbell({ redisUrl, log: captureLog(), queue: 'grading', concurrency: 1 }, async () => {});
    t.teardown(async () => {
      await listener.close(100);
      server.close();
      await redis.close();
    });
    await until('ten connections were accepted', () => accepted >= 10);
  },
);

t.test('a process that has closed all its Redis connections exits by itself', async (t) => {
  const redis = await ownRedis();
  t.teardown(() => redis.close());
  const here = (file: string) => JSON.stringify(new URL(file, import.meta.url).href);
  for (const [redisUrl, waitFor] of [
    [redis.url, 'true'],
    [`redis://127.0.0.1:${await freePort()}`, 'false'],
  ] as const) {
    const script = `
      const { openDoorbells } = await import(${here('./doorbell.ts')});
      const { answerDoorbell } = await import(${here('./doorbell-listener.ts')});
      const { openReplySender, openReplyWaiters } = await import(${here('./replies.ts')});
      const { redisProbe } = await import(${here('./connection.ts')});
      const log = { debug() {}, info() {}, warn() {}, error() {} };
      const deps = { redisUrl: ${JSON.stringify(redisUrl)}, log };
      const bells = openDoorbells(deps);
      const received = Promise.withResolvers();
      const listener = answerDoorbell({ ...deps, queue: 'exit', concurrency: 4 }, (id) => {
        received.resolve();
        return new Promise(() => {});
      });
      const others = [openReplySender(deps), openReplyWaiters(deps), redisProbe(deps)];
      while ((await bells.ring({ queue: 'exit', _id: 'c-1', key: 'k' }, 1)) !== ${waitFor}) await new Promise((next) => setTimeout(next, 5));
      if (${waitFor}) await received.promise;
      await Promise.all([bells.close(), listener.close(20), ...others.map((other) => other.close())]);
      const from = performance.now();
      process.on('exit', () => console.log('left after ' + (performance.now() - from)));
    `;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let output = '';
    child.stdout.on('data', (chunk) => {
      output += chunk;
    });
    const [code] = await once(child, 'close');
    t.equal(code, 0);
    t.match(output, /left after/);
    // An abandoned ring would renew its lock after half of the stall interval of thirty seconds.
    t.ok(Number(output.split(' ').at(-1)) < 12_000, 'no timer of the abandoned ring keeps the process alive');
  }
});

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

function connections(server: Server): Promise<number> {
  return new Promise((resolve, reject) =>
    server.getConnections((error, count) => (error ? reject(error) : resolve(count))),
  );
}

/** Opens a probe of this Redis and returns a function that resolves with true if the probe succeeds. */
function openProbe(t: Test, redis: OwnRedis): () => Promise<boolean> {
  const probe = redisProbe({ redisUrl: redis.url, log: captureLog() });
  t.teardown(async () => {
    await probe.close();
    await redis.close();
  });
  return () =>
    probe.ping().then(
      () => true,
      () => false,
    );
}

t.test('the Redis probe succeeds exactly while Redis answers, through start, hang, kill and restart', async (t) => {
  const redis = await ownRedis();
  await redis.kill9();
  const answers = openProbe(t, redis);
  t.equal(await answers(), false);
  await redis.start();
  await until('a ping succeeds', answers);
  redis.freeze();
  t.equal(await answers(), false);
  redis.thaw();
  await until('a ping succeeds', answers);
  await redis.kill9();
  t.equal(await answers(), false);
  await redis.start();
  await until('a ping succeeds', answers);
});

t.test('the Redis probe fails if Redis is full or a read-only replica', async (t) => {
  const redis = await ownRedis();
  const answers = openProbe(t, redis);
  for (const [broken, mended] of [
    ['CONFIG SET maxmemory 1', 'CONFIG SET maxmemory 0'],
    ['REPLICAOF 127.0.0.1 1', 'REPLICAOF NO ONE'],
  ] as const) {
    await until('a ping succeeds', answers);
    const [name = '', ...args] = broken.split(' ');
    await redis.command(name, ...args);
    t.equal(await answers(), false, broken);
    const [undo = '', ...undoing] = mended.split(' ');
    await redis.command(undo, ...undoing);
    await until('a ping succeeds', answers);
  }
});
