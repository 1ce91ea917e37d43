import { createServer } from 'node:net';
import t from 'tap';
import { HOUR } from '#shared/kernel/time.ts';
import { type CapturedLog, captureLog } from '#testing/captured-log.ts';
import { type OwnRedis, ownRedis } from '#testing/stores/own-redis.ts';
import { until } from '#testing/until.ts';
import { type AddressTurns, type AllTurns, openAddressTurns } from './address-turns.ts';

const SCHOOL = '203.0.113.7';
const FREE = { spacingMs: 0, waitMs: 0 };

/** A clock that a test moves. */
const clock = { now: Date.now() };

/** Opens turns with a wide time limit by default, so that a slow machine is not taken for a hung Redis. */
function openFor(
  redisUrl: string,
  { log = captureLog(), boundMs = 60_000 }: { log?: CapturedLog; boundMs?: number } = {},
) {
  return strangersOf(openAddressTurns({ redisUrl, log, boundMs, now: () => clock.now }));
}

const strangersOf = ({ strangers, close }: AllTurns) => ({ ...strangers, close });

/** Records failures of `address` until Redis has one. From then on, the connection is up. */
async function connected(redis: OwnRedis, turns: AddressTurns, address: string): Promise<void> {
  await until('the failure is in Redis', async () => {
    await turns.failed(address, 'account');
    return ((await redis.command('KEYS', `*${address}*`)) as string[]).length > 0;
  });
}

async function fail(turns: AddressTurns, address: string, accounts: number, from = 0): Promise<void> {
  for (let n = from; n < from + accounts; n += 1) await turns.failed(address, `account ${n}`);
}

t.test('accounts and turns are counted for all front doors together, and for each address separately', async (t) => {
  const redis = await ownRedis();
  const [first, second] = [openFor(redis.url), openFor(redis.url)];
  t.teardown(async () => {
    await Promise.all([first.close(), second.close()]);
    await redis.close();
  });
  await Promise.all([connected(redis, first, '198.51.100.1'), connected(redis, second, '198.51.100.2')]);
  await fail(first, SCHOOL, 30);
  await fail(second, SCHOOL, 30);
  t.strictSame(await first.look(SCHOOL), FREE, 'the same accounts count once');
  await fail(second, SCHOOL, 21, 30);
  t.strictSame(await first.look(SCHOOL), { spacingMs: 1_000, waitMs: 0 });
  t.strictSame(await first.look('203.0.113.8'), FREE);
  // A long spacing, so that its end does not come during the test.
  const taken = await Promise.all([first.take(SCHOOL, HOUR), second.take(SCHOOL, HOUR)]);
  t.equal(taken.filter((waitMs) => waitMs === 0).length, 1, 'one of them takes the turn');
  t.ok(taken.every((waitMs) => waitMs <= HOUR));
  t.ok((await second.look(SCHOOL)).waitMs > 0);
  await second.succeeded(SCHOOL, 'account 0');
  t.strictSame(await first.look(SCHOOL), FREE, 'one failure fewer, one success more');
  for (const key of (await redis.command('KEYS', `*${SCHOOL}*`)) as string[]) {
    t.ok(Number(await redis.command('PTTL', key)) > 0, `${key} expires by itself`);
  }
});

t.test('failures and successes of an address are forgotten after 24 hours', async (t) => {
  const redis = await ownRedis();
  const turns = openFor(redis.url);
  t.teardown(async () => {
    await turns.close();
    await redis.close();
  });
  await connected(redis, turns, '198.51.100.1');
  await fail(turns, SCHOOL, 51);
  clock.now += 24 * HOUR - 1;
  t.match(await turns.look(SCHOOL), { spacingMs: 1_000 });
  clock.now += 1;
  t.strictSame(await turns.look(SCHOOL), FREE);
  await fail(turns, SCHOOL, 1);
  t.equal(Number(await redis.command('ZCARD', `examhall:auth:address:${SCHOOL}:failed`)), 1, 'and deleted');
});

t.test('registrations have lists and turns of their own, for an hour', async (t) => {
  const redis = await ownRedis();
  const all = openAddressTurns({ redisUrl: redis.url, log: captureLog(), boundMs: 60_000, now: () => clock.now });
  t.teardown(async () => {
    await all.close();
    await redis.close();
  });
  await connected(redis, all.strangers, '198.51.100.1');
  for (let n = 0; n < 60; n += 1) await all.registrations.succeeded(SCHOOL, `account ${n}`);
  t.strictSame(await all.registrations.look(SCHOOL), { spacingMs: 1_000, waitMs: 0 });
  t.strictSame(await all.strangers.look(SCHOOL), FREE);
  t.equal(await all.registrations.take(SCHOOL, HOUR), 0);
  t.equal(await all.strangers.take(SCHOOL, HOUR), 0, 'a registration takes no turn of a login');
  clock.now += HOUR;
  t.strictSame(await all.registrations.look(SCHOOL), FREE);
  for (const key of (await redis.command('KEYS', `*${SCHOOL}*`)) as string[]) {
    t.ok(Number(await redis.command('PTTL', key)) <= HOUR, `${key} expires by itself`);
  }
});

t.test('while Redis is unreachable, each front door decides by the outcomes that it saw itself', async (t) => {
  const redis = await ownRedis();
  const turns = openFor(redis.url);
  t.teardown(async () => {
    await turns.close();
    await redis.close();
  });
  await connected(redis, turns, '198.51.100.1');
  await fail(turns, SCHOOL, 50);
  await fail(turns, '203.0.113.9', 51);
  t.equal(await turns.take('203.0.113.9', 1_000), 0);
  await redis.kill9();
  t.equal(await turns.take('203.0.113.9', 1_000), 1_000, 'a turn that Redis granted is still taken');
  t.strictSame(await turns.look(SCHOOL), FREE);
  await fail(turns, SCHOOL, 1, 50);
  t.strictSame(await turns.look(SCHOOL), { spacingMs: 1_000, waitMs: 0 }, 'outcomes before the outage count');
  t.equal(await turns.take(SCHOOL, 1_000), 0);
  t.equal(await turns.take(SCHOOL, 1_000), 1_000);
  t.strictSame(await turns.look('203.0.113.8'), FREE);
});

t.test('outcomes of an outage of Redis count at every front door after it', async (t) => {
  const redis = await ownRedis();
  const [first, second] = [openFor(redis.url, { boundMs: 1_000 }), openFor(redis.url)];
  t.teardown(async () => {
    redis.thaw();
    await Promise.all([first.close(), second.close()]);
    await redis.close();
  });
  await Promise.all([connected(redis, first, '198.51.100.1'), connected(redis, second, '198.51.100.2')]);
  redis.freeze();
  await fail(first, SCHOOL, 150);
  await first.succeeded(SCHOOL, 'account 0');
  redis.thaw();
  await until('the other front door knows the outcomes', async () => {
    await first.failed('198.51.100.1', 'account');
    return ((await redis.command('ZCARD', `examhall:auth:address:${SCHOOL}:failed`)) as number) === 149;
  });
  t.match(await second.look(SCHOOL), { spacingMs: 1_000 });
});

t.test('a hung Redis delays one call by its time limit', async (t) => {
  const redis = await ownRedis();
  const log = captureLog();
  const turns = openFor(redis.url, { log, boundMs: 50 });
  t.teardown(async () => {
    redis.thaw();
    await turns.close();
    await redis.close();
  });
  await connected(redis, turns, '198.51.100.1');
  redis.freeze();
  await fail(turns, SCHOOL, 51);
  t.match(await turns.look(SCHOOL), { spacingMs: 1_000 });
  t.match(log.lines.filter(({ level }) => level === 'warn').slice(0, 1), [
    { message: 'Redis connection lost', fields: { reason: 'No answer within 50 ms' } },
  ]);
  redis.thaw();
  await connected(redis, turns, '198.51.100.2');
});

t.test('the turns never throw, without Redis or with a server that is not Redis', async (t) => {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', () => socket.write(':1\r\n$3\r\nabc\r\n*0\r\n'));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' ? (address?.port ?? 0) : 0;
  for (const url of ['redis://127.0.0.1:1', `redis://127.0.0.1:${port}`]) {
    const turns = openFor(url, { boundMs: 50 });
    await fail(turns, SCHOOL, 51);
    t.match(await turns.look(SCHOOL), { spacingMs: 1_000 });
    t.strictSame(await turns.look(''), FREE);
    await turns.close();
    t.match(await turns.look(SCHOOL), { spacingMs: 1_000 }, 'even after close');
  }
  server.close();
});
