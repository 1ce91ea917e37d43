import t, { type Test } from 'tap';
import { startThrowAwayServices } from '#scripts/services/throw-away.ts';
import { captureLog } from '#testing/captured-log.ts';
import { ownRedis } from '#testing/stores/own-redis.ts';
import { until } from '#testing/until.ts';
import { openDoorbells } from './doorbell.ts';
import { answerDoorbell } from './doorbell-listener.ts';

/** A wide limit, so that a busy machine is not taken for an unreachable Redis. The limit has its own test. */
const boundMs = 60_000;

async function bellAndListener(t: Test, { started = true }: { started?: boolean } = {}) {
  const redis = await ownRedis(startThrowAwayServices);
  if (!started) await redis.kill9();
  const log = captureLog();
  const received: string[] = [];
  const bells = openDoorbells({ redisUrl: redis.url, log, boundMs });
  const listener = answerDoorbell({ redisUrl: redis.url, log, queue: 'grading', concurrency: 4 }, async ({ id }) => {
    received.push(id);
  });
  t.teardown(async () => {
    await Promise.all([bells.close(), listener.close(1_000)]);
    await redis.close();
  });
  let rung = 0;
  return {
    redis,
    log,
    bells,
    listener,
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
