import t, { type Test } from 'tap';
import { startThrowAwayServices } from '#scripts/services/throw-away.ts';
import { captureLog } from '#testing/captured-log.ts';
import { ownRedis } from '#testing/stores/own-redis.ts';
import { until } from '#testing/until.ts';
import { openDoorbells, type Ring } from './doorbell.ts';
import { answerDoorbell } from './doorbell-listener.ts';

/** Starts a Redis and opens doorbells on it. Their limit is wide, so that a busy machine is not taken for an unreachable Redis. */
async function rungRedis(t: Test) {
  const redis = await ownRedis(startThrowAwayServices);
  t.teardown(() => redis.close());
  const log = captureLog();
  const bells = openDoorbells({ redisUrl: redis.url, log, boundMs: 60_000 });
  t.teardown(() => bells.close());
  return { redis, bells, log };
}

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

t.test('a ring delivers the key of its command, and a ring of an earlier version has none', async (t) => {
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
  await until('the other rings are received', () => received.length === 3);
  t.strictSame(received, [
    { id: 'new', key: 'grading:new' },
    { id: 'old', key: null },
    { id: 'odd', key: null },
  ]);
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
