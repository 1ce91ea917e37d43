import { type AddressInfo, connect, createServer } from 'node:net';
import t, { type Test } from 'tap';
import { freePort } from '#scripts/start/services/port.ts';
import { captureLog } from '#testing/captured-log.ts';
import { ownRedis } from '#testing/stores/own-redis.ts';
import { until } from '#testing/until.ts';
import { openDoorbells, type Ring } from './doorbell.ts';
import { answerDoorbell } from './doorbell-listener.ts';

/** Opens doorbells on a Redis of the test. Their limit is wide, so that a busy machine is not taken for an unreachable Redis. */
async function rungRedis(t: Test, { boundMs = 60_000, started = true }: { boundMs?: number; started?: boolean } = {}) {
  const redis = await ownRedis();
  t.teardown(() => redis.close());
  if (!started) await redis.kill9();
  const log = captureLog();
  const bells = openDoorbells({ redisUrl: redis.url, log, boundMs });
  t.teardown(() => bells.close());
  return { redis, bells, log };
}

/** The same with a listener that keeps the ids of the rings that it received. */
async function bellAndListener(t: Test, options: { started?: boolean } = {}) {
  const { redis, bells, log } = await rungRedis(t, options);
  const received: string[] = [];
  const listener = answerDoorbell({ redisUrl: redis.url, log, queue: 'grading', concurrency: 4 }, async ({ id }) => {
    received.push(id);
  });
  t.teardown(() => listener.close(1_000));
  let rung = 0;
  return {
    redis,
    log,
    bells,
    received,
    /** Sends new rings until one is both accepted and delivered. A real caller would not repeat a failed ring. */
    async ringIsReceived() {
      await until('a ring is received', async () => {
        rung += 1;
        const id = `probe-${rung}`;
        if (!(await bells.ring({ queue: 'grading', _id: id, key: 'k' }, 1))) return false;
        const giveUpAt = performance.now() + 500;
        return until('the probe is received', () => received.includes(id) || performance.now() > giveUpAt).then(() =>
          received.includes(id),
        );
      });
    },
  };
}

t.test('a ring wakes the listener with the command id and leaves nothing in Redis', async (t) => {
  const { redis, bells, received } = await bellAndListener(t);
  await until('the bell rings', () => bells.ring({ queue: 'grading', _id: 'c-1', key: 'k' }, 1));
  await until('the ring is received', () => received.includes('c-1'));
  await until(
    'the ring is removed',
    async () => (await redis.command('EXISTS', 'examhall:grading:jobs', 'examhall:grading:active')) === 0,
  );
  t.strictSame(received, ['c-1']);
});

t.test('a command attempt has one waiting ring, and the next attempt rings anew', async (t) => {
  const { redis, bells } = await bellAndListener(t);
  await until('the bell rings', () => bells.ring({ queue: 'delivery', _id: 'c-1', key: 'k' }, 1));
  t.equal(
    await bells.ring({ queue: 'delivery', _id: 'c-1', key: 'k' }, 1),
    true,
    'a bell that rings already counts as rung',
  );
  t.equal(await bells.ring({ queue: 'delivery', _id: 'c-1', key: 'k' }, 2), true);
  t.strictSame(await redis.command('LRANGE', 'examhall:delivery:waiting', '0', '-1'), ['c-1:2', 'c-1:1']);
  t.match(await redis.command('HGET', 'examhall:delivery:jobs', 'c-1:1'), /"data":\{"id":"c-1","key":"k"\}/);
});

t.test('rings are delivered once Redis starts, although it was down at first', async (t) => {
  const { redis, bells, log, ringIsReceived } = await bellAndListener(t, { started: false });
  t.equal(await bells.ring({ queue: 'grading', _id: 'early', key: 'k' }, 1), false);
  await until('both links have logged', () => log.lines.length >= 2);
  await redis.start();
  await ringIsReceived();
  t.strictSame(
    log.lines
      .filter((line) => line.message === 'Redis connection lost')
      .map((line) => 'purpose' in line.fields && line.fields.purpose),
    ['doorbells', 'doorbell of grading'],
    'each connection logs it once, however often it dialled',
  );
});

t.test('rings are delivered again after kill -9 and a restart of Redis without data', async (t) => {
  const { redis, bells, ringIsReceived } = await bellAndListener(t);
  await ringIsReceived();
  for (const round of [1, 2]) {
    await redis.kill9();
    await until(
      'a ring is lost',
      async () => !(await bells.ring({ queue: 'grading', _id: `lost-${round}`, key: 'k' }, 1)),
    );
    await redis.start();
    await ringIsReceived();
  }
  t.pass('the blocked consumer lives');
});

t.test('SCRIPT FLUSH loses no ring', async (t) => {
  const { redis, bells, received, ringIsReceived } = await bellAndListener(t);
  await ringIsReceived();
  await redis.command('SCRIPT', 'FLUSH');
  const rings = await Promise.all(
    Array.from({ length: 20 }, (_, i) => bells.ring({ queue: 'grading', _id: `flushed-${i}`, key: 'k' }, 1)),
  );
  t.strictSame(new Set(rings), new Set([true]));
  await until('all rings are received', () => received.filter((id) => id.startsWith('flushed-')).length === 20);
  await redis.command('SCRIPT', 'FLUSH');
  await ringIsReceived();
});

t.test('the next ring after FLUSHALL is delivered', async (t) => {
  const { redis, bells, received, ringIsReceived } = await bellAndListener(t);
  await ringIsReceived();
  await redis.command('FLUSHALL');
  t.equal(await bells.ring({ queue: 'grading', _id: 'after', key: 'k' }, 1), true);
  await until('the ring is received', () => received.includes('after'));
});

t.test('a blocking connection that the server closes is replaced', async (t) => {
  const { redis, ringIsReceived } = await bellAndListener(t);
  await ringIsReceived();
  const clients = String(await redis.command('CLIENT', 'LIST')).split('\n');
  const blocked = clients.find((line) => line.includes('cmd=brpoplpush'));
  await redis.command('CLIENT', 'KILL', 'ID', /^id=(\d+)/.exec(blocked ?? '')?.[1] ?? 'none');
  await ringIsReceived();
});

t.test('each of a thousand rings is delivered at least once and leaves nothing in Redis', async (t) => {
  const { redis, bells, received, ringIsReceived } = await bellAndListener(t);
  await ringIsReceived();
  const ids = Array.from({ length: 1_000 }, (_, i) => `c-${i}`);
  const rings = await Promise.all(ids.map((id) => bells.ring({ queue: 'grading', _id: id, key: 'k' }, 1)));
  t.strictSame(new Set(rings), new Set([true]));
  await until(
    'all rings are received',
    () => new Set(received.filter((id) => id.startsWith('c-'))).size === ids.length,
  );
  await until(
    'the rings are removed',
    async () =>
      (await redis.command('EXISTS', ...['jobs', 'active', 'waiting'].map((key) => `examhall:grading:${key}`))) === 0,
  );
});

t.test('a ring of a dead worker is delivered to another worker, and a ring without content is removed', async (t) => {
  const { redis, bells, log } = await rungRedis(t);
  await until('the bell rings', () => bells.ring({ queue: 'grading', _id: 'orphan', key: 'k' }, 1));
  await redis.command('RPOPLPUSH', 'examhall:grading:waiting', 'examhall:grading:active');
  await redis.command('LPUSH', 'examhall:grading:active', 'empty:1');
  const received: string[] = [];
  const listener = answerDoorbell(
    { redisUrl: redis.url, log, queue: 'grading', concurrency: 1, stallMs: 100 },
    async ({ id }) => void received.push(id),
  );
  t.teardown(() => listener.close(1_000));
  await until('the ring of the dead worker is received', () => received.includes('orphan'));
  const keys = ['active', 'waiting', 'stalling'].map((key) => `examhall:grading:${key}`);
  await until('the rings are removed', async () => (await redis.command('EXISTS', ...keys)) === 0);
});

t.test('a ring delivers id and key of its command, and a ring without both is dropped', async (t) => {
  const { redis, bells, log } = await rungRedis(t);
  const received: Ring[] = [];
  const listener = answerDoorbell(
    { redisUrl: redis.url, log, queue: 'grading', concurrency: 1 },
    async (ring) => void received.push(ring),
  );
  t.teardown(() => listener.close(1_000));
  await until('the bell rings', () => bells.ring({ queue: 'grading', _id: 'new', key: 'grading:new' }, 1));
  await until('the ring is received', () => received.length === 1);
  for (const data of [{ id: 'old' }, { id: 'odd', key: 7 }]) {
    const job = JSON.stringify({ data, options: {}, status: 'created' });
    await redis.command('HSET', 'examhall:grading:jobs', `${data.id}:1`, job);
    await redis.command('LPUSH', 'examhall:grading:waiting', `${data.id}:1`);
  }
  const dropped = () => log.lines.filter(({ message }) => message === 'ring without id and key of a command dropped');
  await until('the other rings are dropped', () => dropped().length === 2);
  t.strictSame(received, [{ id: 'new', key: 'grading:new' }]);
});

t.test('a ring whose handler fails is logged and removed, and later rings are delivered', async (t) => {
  const { redis, bells, log } = await rungRedis(t);
  const received: string[] = [];
  const listener = answerDoorbell({ redisUrl: redis.url, log, queue: 'grading', concurrency: 1 }, ({ id }) => {
    received.push(id);
    if (id === 'throws') throw new Error('thrown');
    return id === 'rejects' ? Promise.reject(new Error('rejected')) : Promise.resolve();
  });
  t.teardown(() => listener.close(1_000));
  for (const id of ['throws', 'rejects', 'fine'])
    await until('each bell rings', () => bells.ring({ queue: 'grading', _id: id, key: 'k' }, 1));
  await until('three rings are received', () => received.length === 3);
  await until(
    'the rings are removed',
    async () => (await redis.command('EXISTS', 'examhall:grading:jobs', 'examhall:grading:active')) === 0,
  );
  t.equal(log.lines.filter((line) => line.message === 'answering a ring failed').length, 2);
});

t.test('a doorbell listener that closes accepts no further ring and acknowledges the current one', async (t) => {
  const { redis, bells, log } = await rungRedis(t);
  const gate = Promise.withResolvers<void>();
  const received: string[] = [];
  const listener = answerDoorbell({ redisUrl: redis.url, log, queue: 'grading', concurrency: 2 }, ({ id }) => {
    received.push(id);
    return gate.promise;
  });
  await until('the bell rings', () => bells.ring({ queue: 'grading', _id: 'running', key: 'k' }, 1));
  await until('the ring is received', () => received.includes('running'));
  let closed = false;
  const closing = listener.close(60_000).then(() => {
    closed = true;
  });
  await until(
    'the listener has stopped waiting',
    async () => !String(await redis.command('CLIENT', 'LIST')).includes('cmd=brpoplpush'),
  );
  t.equal(await bells.ring({ queue: 'grading', _id: 'late', key: 'k' }, 1), true);
  t.equal(closed, false);
  gate.resolve();
  await closing;
  t.strictSame(received, ['running']);
  t.strictSame(await redis.command('HKEYS', 'examhall:grading:jobs'), ['late:1'], 'the running ring was acknowledged');
});

t.test('a doorbell listener that closes abandons and removes a ring that exceeds the time limit', async (t) => {
  const { redis, bells, log } = await rungRedis(t);
  const received = Promise.withResolvers<void>();
  const listener = answerDoorbell({ redisUrl: redis.url, log, queue: 'upkeep', concurrency: 1 }, () => {
    received.resolve();
    return new Promise(() => {});
  });
  await until('the bell rings', () => bells.ring({ queue: 'upkeep', _id: 'endless', key: 'k' }, 1));
  await received.promise;
  await listener.close(10);
  t.strictSame(await redis.command('HKEYS', 'examhall:upkeep:jobs'), [], 'the ring is removed');
});

/** Returns a Redis that hangs now, and doorbells that connected to it before. */
async function frozenRedis(t: Test, boundMs: number) {
  const { redis, bells } = await rungRedis(t, { boundMs });
  await until('the bell rings', () => bells.ring({ queue: 'grading', _id: 'before', key: 'k' }, 1));
  redis.freeze();
  return { redis, bells };
}

t.test('a hung Redis delays one ring by its time limit and fails the next ones at once', async (t) => {
  const { redis, bells } = await frozenRedis(t, 100);
  const rings = [];
  let waited = 0;
  // The first ring drops the link. Otherwise every ring would wait until a check finds the link dead, a second or two later.
  // A pause of this machine may make a few more rings seem slow.
  for (let i = 0; i < 500 && waited < 10; i += 1) {
    const from = performance.now();
    rings.push(await bells.ring({ queue: 'grading', _id: `hung-${i}`, key: 'k' }, 1));
    if (performance.now() - from >= 50) waited += 1;
  }
  t.strictSame(new Set(rings), new Set([false]));
  t.ok(waited >= 1 && waited < 5, `of 500 rings ${waited} waited`);
  redis.thaw();
  await until('the bell rings again', () => bells.ring({ queue: 'grading', _id: 'thawed', key: 'k' }, 1));
});

t.test('after a ring timed out, a slow Redis is not dialled for a while', async (t) => {
  const redis = await ownRedis();
  const arrivals: number[] = [];
  const slow = createServer((socket) => {
    const upstream = connect(Number(new URL(redis.url).port), '127.0.0.1');
    socket.on('error', () => upstream.destroy()).on('close', () => upstream.destroy());
    upstream.on('error', () => socket.destroy()).on('close', () => socket.destroy());
    socket.pipe(upstream);
    socket.on('data', (chunk) => {
      if (!chunk.includes('evalsha')) return;
      arrivals.push(performance.now());
      upstream.pause();
    });
    upstream.on('data', (chunk) => socket.write(chunk));
  });
  await new Promise<void>((resolve) => slow.listen(0, '127.0.0.1', resolve));
  const { port } = slow.address() as AddressInfo;
  const bells = openDoorbells({ redisUrl: `redis://127.0.0.1:${port}`, log: captureLog(), boundMs: 50 });
  t.teardown(async () => {
    await bells.close();
    slow.close();
    await redis.close();
  });
  await until('three rings have reached Redis', async () => {
    t.equal(await bells.ring({ queue: 'grading', _id: 'slow', key: 'k' }, 1), false);
    return arrivals.length >= 3;
  });
  const [first = 0, , third = 0] = arrivals;
  t.ok(third - first > 20 * 50, 'only two of all rings in that time waited');
});

t.test('concurrent rings at a hung Redis time out together, not one after another', async (t) => {
  const { bells } = await frozenRedis(t, 200);
  const from = performance.now();
  const rings = await Promise.all(
    Array.from({ length: 500 }, (_, i) => bells.ring({ queue: 'grading', _id: `hung-${i}`, key: 'k' }, 1)),
  );
  t.strictSame(new Set(rings), new Set([false]));
  t.ok(performance.now() - from < 500 * 200 * 0.5);
});

t.test('without a server, rings fail at once and close stops dialling', async (t) => {
  const log = captureLog();
  const bells = openDoorbells({ redisUrl: `redis://127.0.0.1:${await freePort()}`, log });
  await until('the link has logged', () => log.lines.length > 0);
  t.equal(await bells.ring({ queue: 'grading', _id: 'c-1', key: 'k' }, 1), false);
  await bells.close();
  t.equal(await bells.ring({ queue: 'grading', _id: 'c-1', key: 'k' }, 1), false);
  await bells.close();
});
