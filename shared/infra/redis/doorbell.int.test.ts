import { type AddressInfo, connect, createServer } from 'node:net';
import t from 'tap';
import { freePort } from '../../../scripts/services/port.ts';
import { startThrowAwayServices } from '../../../scripts/services/throw-away.ts';
import { eventually, ownRedis } from '../../testing/stores/own-redis.ts';
import { openDoorbells } from './doorbell.ts';
import { answerDoorbell } from './doorbell-listener.ts';
import type { Log } from './link.ts';

/** Wide, so that a busy machine is not mistaken for a Redis that is away; the bound itself has a test of its own. */
const boundMs = 5_000;

function heldLog(): Log & { lines: { fields: object; message: string }[] } {
  const lines: { fields: object; message: string }[] = [];
  const write = (fields: object, message: string) => void lines.push({ fields, message });
  return { lines, debug: () => {}, info: write, warn: write, error: write };
}

async function bellAndListener(t: Tap, { started = true }: { started?: boolean } = {}) {
  const redis = await ownRedis(startThrowAwayServices);
  if (!started) await redis.kill9();
  const log = heldLog();
  const heard: string[] = [];
  const bells = openDoorbells({ redisUrl: redis.url, log, boundMs });
  const listener = answerDoorbell({ redisUrl: redis.url, log, queue: 'grading', concurrency: 4 }, async (id) => {
    heard.push(id);
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
    heard,
    /** Rings anew, as a caller whose ring was refused would not, until one ring is both taken and heard. */
    async ringIsHeard() {
      await eventually(async () => {
        rung += 1;
        const id = `probe-${rung}`;
        if (!(await bells.ring('grading', id, 1))) return false;
        const giveUpAt = performance.now() + 500;
        return eventually(() => heard.includes(id) || performance.now() > giveUpAt).then(() => heard.includes(id));
      });
    },
  };
}
type Tap = typeof t;

t.test('a ring wakes the listener with the command id and leaves nothing in Redis', async (t) => {
  const { redis, bells, heard } = await bellAndListener(t as Tap);
  await eventually(() => bells.ring('grading', 'c-1', 1));
  await eventually(() => heard.includes('c-1'));
  await eventually(
    async () => (await redis.command('EXISTS', 'examhall:grading:jobs', 'examhall:grading:active')) === 0,
  );
  t.strictSame(heard, ['c-1']);
});

t.test('one attempt rings once while it waits; the next attempt rings anew', async (t) => {
  const { redis, bells } = await bellAndListener(t as Tap);
  await eventually(() => bells.ring('delivery', 'c-1', 1));
  t.equal(await bells.ring('delivery', 'c-1', 1), true, 'a bell that rings already counts as rung');
  t.equal(await bells.ring('delivery', 'c-1', 2), true);
  t.strictSame(await redis.command('LRANGE', 'examhall:delivery:waiting', '0', '-1'), ['c-1:2', 'c-1:1']);
  t.match(await redis.command('HGET', 'examhall:delivery:jobs', 'c-1:1'), /"data":\{"id":"c-1"\}/);
});

t.test('Redis is absent at the start and comes later', async (t) => {
  const { redis, bells, log, ringIsHeard } = await bellAndListener(t as Tap, { started: false });
  t.equal(await bells.ring('grading', 'early', 1), false);
  await eventually(() => log.lines.length >= 2);
  await redis.start();
  await ringIsHeard();
  t.strictSame(
    log.lines
      .filter((line) => line.message === 'Redis is away')
      .map((line) => 'purpose' in line.fields && line.fields.purpose),
    ['doorbells', 'doorbell of grading'],
    'each connection says so once, however often it dialled',
  );
});

t.test('after kill -9 and a restart with an empty store, rings are taken and heard again', async (t) => {
  const { redis, bells, ringIsHeard } = await bellAndListener(t as Tap);
  await ringIsHeard();
  for (const round of [1, 2]) {
    await redis.kill9();
    await eventually(async () => !(await bells.ring('grading', `lost-${round}`, 1)));
    await redis.start();
    await ringIsHeard();
  }
  t.pass('the blocked consumer lives');
});

t.test('SCRIPT FLUSH costs no ring', async (t) => {
  const { redis, bells, heard, ringIsHeard } = await bellAndListener(t as Tap);
  await ringIsHeard();
  await redis.command('SCRIPT', 'FLUSH');
  const rings = await Promise.all(Array.from({ length: 20 }, (_, i) => bells.ring('grading', `flushed-${i}`, 1)));
  t.strictSame(new Set(rings), new Set([true]));
  await eventually(() => heard.filter((id) => id.startsWith('flushed-')).length === 20);
  await redis.command('SCRIPT', 'FLUSH');
  await ringIsHeard();
});

t.test('after FLUSHALL the next ring is taken and heard', async (t) => {
  const { redis, bells, heard, ringIsHeard } = await bellAndListener(t as Tap);
  await ringIsHeard();
  await redis.command('FLUSHALL');
  t.equal(await bells.ring('grading', 'after', 1), true);
  await eventually(() => heard.includes('after'));
});

t.test('a blocked connection that the server cuts is replaced', async (t) => {
  const { redis, ringIsHeard } = await bellAndListener(t as Tap);
  await ringIsHeard();
  const clients = String(await redis.command('CLIENT', 'LIST')).split('\n');
  const blocked = clients.find((line) => line.includes('cmd=brpoplpush'));
  await redis.command('CLIENT', 'KILL', 'ID', /^id=(\d+)/.exec(blocked ?? '')?.[1] ?? 'none');
  await ringIsHeard();
});

t.test('a hung Redis costs one ring its bound, and the rings after it nothing', async (t) => {
  const redis = await ownRedis(startThrowAwayServices);
  const bells = openDoorbells({ redisUrl: redis.url, log: heldLog(), boundMs: 100 });
  t.teardown(async () => {
    await bells.close();
    await redis.close();
  });
  await eventually(() => bells.ring('grading', 'before', 1));
  redis.freeze();
  const rings = [];
  let waited = 0;
  // Without the one that gives the link up, those of a second or two would wait: until a check finds it dead. A machine
  // that stands still for a moment may make one more look as if it had.
  for (let i = 0; i < 500 && waited < 10; i += 1) {
    const from = performance.now();
    rings.push(await bells.ring('grading', `hung-${i}`, 1));
    if (performance.now() - from >= 50) waited += 1;
  }
  t.strictSame(new Set(rings), new Set([false]));
  t.ok(waited >= 1 && waited < 5, `of 500 rings ${waited} waited`);
  redis.thaw();
  await eventually(() => bells.ring('grading', 'thawed', 1));
});

t.test('a Redis too slow for rings is left alone for a while after each that ran out of time', async (t) => {
  const redis = await ownRedis(startThrowAwayServices);
  const slow = createServer((socket) => {
    const upstream = connect(Number(new URL(redis.url).port), '127.0.0.1');
    socket.on('error', () => upstream.destroy()).on('close', () => upstream.destroy());
    upstream.on('error', () => socket.destroy()).on('close', () => socket.destroy());
    socket.pipe(upstream);
    socket.on('data', (chunk) => {
      if (chunk.includes('evalsha')) upstream.pause();
    });
    upstream.on('data', (chunk) => socket.write(chunk));
  });
  await new Promise<void>((resolve) => slow.listen(0, '127.0.0.1', resolve));
  const { port } = slow.address() as AddressInfo;
  const bells = openDoorbells({ redisUrl: `redis://127.0.0.1:${port}`, log: heldLog(), boundMs: 50 });
  t.teardown(async () => {
    await bells.close();
    slow.close();
    await redis.close();
  });
  const waited: number[] = [];
  await eventually(async () => {
    const from = performance.now();
    t.equal(await bells.ring('grading', 'slow', 1), false);
    if (performance.now() - from >= 50) waited.push(from);
    return waited.length === 3;
  });
  const [first = 0, , third = 0] = waited;
  t.ok(third - first > 20 * 50, 'of all requests in that time, two waited');
});

t.test('rings that hang together run out of time together', async (t) => {
  const redis = await ownRedis(startThrowAwayServices);
  const bells = openDoorbells({ redisUrl: redis.url, log: heldLog(), boundMs: 200 });
  t.teardown(async () => {
    await bells.close();
    await redis.close();
  });
  await eventually(() => bells.ring('grading', 'before', 1));
  redis.freeze();
  const from = performance.now();
  const rings = await Promise.all(Array.from({ length: 500 }, (_, i) => bells.ring('grading', `hung-${i}`, 1)));
  t.strictSame(new Set(rings), new Set([false]));
  t.ok(performance.now() - from < 500 * 200 * 0.05);
});

t.test('a thousand rings are each heard at least once and leave nothing behind', async (t) => {
  const { redis, bells, heard, ringIsHeard } = await bellAndListener(t as Tap);
  await ringIsHeard();
  const ids = Array.from({ length: 1_000 }, (_, i) => `c-${i}`);
  const rings = await Promise.all(ids.map((id) => bells.ring('grading', id, 1)));
  t.strictSame(new Set(rings), new Set([true]));
  await eventually(() => new Set(heard.filter((id) => id.startsWith('c-'))).size === ids.length);
  await eventually(
    async () =>
      (await redis.command('EXISTS', ...['jobs', 'active', 'waiting'].map((key) => `examhall:grading:${key}`))) === 0,
  );
});

t.test('a ring that a dead worker took is heard by another, and an empty one is cleared away', async (t) => {
  const redis = await ownRedis(startThrowAwayServices);
  const bells = openDoorbells({ redisUrl: redis.url, log: heldLog(), boundMs });
  await eventually(() => bells.ring('grading', 'orphan', 1));
  await redis.command('RPOPLPUSH', 'examhall:grading:waiting', 'examhall:grading:active');
  await redis.command('LPUSH', 'examhall:grading:active', 'empty:1');
  const heard: string[] = [];
  const listener = answerDoorbell(
    { redisUrl: redis.url, log: heldLog(), queue: 'grading', concurrency: 1, stallMs: 100 },
    async (id) => void heard.push(id),
  );
  t.teardown(async () => {
    await Promise.all([bells.close(), listener.close(1_000)]);
    await redis.close();
  });
  await eventually(() => heard.includes('orphan'));
  const keys = ['active', 'waiting', 'stalling'].map((key) => `examhall:grading:${key}`);
  await eventually(async () => (await redis.command('EXISTS', ...keys)) === 0);
});

t.test('an answer that fails is logged and its ring removed; the next rings are heard', async (t) => {
  const redis = await ownRedis(startThrowAwayServices);
  const log = heldLog();
  const bells = openDoorbells({ redisUrl: redis.url, log, boundMs });
  const heard: string[] = [];
  const listener = answerDoorbell({ redisUrl: redis.url, log, queue: 'grading', concurrency: 1 }, (id) => {
    heard.push(id);
    if (id === 'throws') throw new Error('thrown');
    return id === 'rejects' ? Promise.reject(new Error('rejected')) : Promise.resolve();
  });
  t.teardown(async () => {
    await Promise.all([bells.close(), listener.close(1_000)]);
    await redis.close();
  });
  for (const id of ['throws', 'rejects', 'fine']) await eventually(() => bells.ring('grading', id, 1));
  await eventually(() => heard.length === 3);
  await eventually(
    async () => (await redis.command('EXISTS', 'examhall:grading:jobs', 'examhall:grading:active')) === 0,
  );
  t.equal(log.lines.filter((line) => line.message === 'Answering a ring failed').length, 2);
});

t.test('close takes no further ring, waits for the running one and acknowledges it', async (t) => {
  const redis = await ownRedis(startThrowAwayServices);
  const bells = openDoorbells({ redisUrl: redis.url, log: heldLog(), boundMs });
  t.teardown(async () => {
    await bells.close();
    await redis.close();
  });
  const gate = Promise.withResolvers<void>();
  const heard: string[] = [];
  const listener = answerDoorbell({ redisUrl: redis.url, log: heldLog(), queue: 'grading', concurrency: 2 }, (id) => {
    heard.push(id);
    return gate.promise;
  });
  await eventually(() => bells.ring('grading', 'running', 1));
  await eventually(() => heard.includes('running'));
  let closed = false;
  const closing = listener.close(60_000).then(() => {
    closed = true;
  });
  await eventually(async () => !String(await redis.command('CLIENT', 'LIST')).includes('cmd=brpoplpush'));
  t.equal(await bells.ring('grading', 'late', 1), true);
  t.equal(closed, false);
  gate.resolve();
  await closing;
  t.strictSame(heard, ['running']);
  t.strictSame(await redis.command('HKEYS', 'examhall:grading:jobs'), ['late:1'], 'the running ring was acknowledged');
});

t.test('close gives up on a ring that outlives its time', async (t) => {
  const { redis, bells } = await bellAndListener(t as Tap);
  const heard = Promise.withResolvers<void>();
  const listener = answerDoorbell({ redisUrl: redis.url, log: heldLog(), queue: 'upkeep', concurrency: 1 }, () => {
    heard.resolve();
    return new Promise(() => {});
  });
  await eventually(() => bells.ring('upkeep', 'endless', 1));
  await heard.promise;
  await listener.close(10);
  t.strictSame(await redis.command('HKEYS', 'examhall:upkeep:jobs'), [], 'and removes it');
});

t.test('nothing listens at the address: rings are refused at once and close ends the dialling', async (t) => {
  const log = heldLog();
  const bells = openDoorbells({ redisUrl: `redis://127.0.0.1:${await freePort()}`, log });
  await eventually(() => log.lines.length > 0);
  t.equal(await bells.ring('grading', 'c-1', 1), false);
  await bells.close();
  t.equal(await bells.ring('grading', 'c-1', 1), false);
  await bells.close();
});
