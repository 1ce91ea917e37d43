import t, { type Test } from 'tap';
import { captureLog } from '#testing/captured-log.ts';
import { type OwnRedis, ownRedis } from '#testing/stores/own-redis.ts';
import { until } from '#testing/until.ts';
import { redisProbe } from './connection.ts';

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
