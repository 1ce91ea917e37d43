import { type AddressInfo, connect, createServer } from 'node:net';
import t, { type Test } from 'tap';
import { freePort } from '#scripts/services/port.ts';
import { startThrowAwayServices } from '#scripts/services/throw-away.ts';
import { captureLog } from '#testing/captured-log.ts';
import { ownRedis } from '#testing/stores/own-redis.ts';
import { until } from '#testing/until.ts';
import { openDoorbells } from './doorbell.ts';

/** Returns a Redis that hangs now, and doorbells that connected to it before. */
async function frozenRedis(t: Test, boundMs: number) {
  const redis = await ownRedis(startThrowAwayServices);
  t.teardown(() => redis.close());
  const bells = openDoorbells({ redisUrl: redis.url, log: captureLog(), boundMs });
  t.teardown(() => bells.close());
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
  const redis = await ownRedis(startThrowAwayServices);
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
