import { createServer } from 'node:net';
import t from 'tap';
import { startThrowAwayServices } from '#scripts/services/throw-away.ts';
import { type CapturedLog, captureLog } from '#testing/captured-log.ts';
import { type OwnRedis, ownRedis } from '#testing/stores/own-redis.ts';
import { until } from '#testing/until.ts';
import { type AddressFailures, openAddressFailures } from './address-failures.ts';

const LIMIT = 3;
const MAPPED = '::ffff:203.0.113.7';

/** Opens counters with a wide time limit by default, so that a slow machine is not taken for a hung Redis. */
function openFor(
  redisUrl: string,
  {
    log = captureLog(),
    windowMs = 600_000,
    boundMs = 5_000,
  }: { log?: CapturedLog; windowMs?: number; boundMs?: number } = {},
): AddressFailures {
  return openAddressFailures({ redisUrl, log, limit: LIMIT, windowMs, boundMs });
}

/** Records failures of `address` until Redis has one. From then on, the connection is up. */
async function connected(redis: OwnRedis, failures: AddressFailures, address: string): Promise<void> {
  await until('the failure is in Redis', async () => {
    await failures.record(address);
    return ((await redis.command('KEYS', `*${address}`)) as string[]).length > 0;
  });
}

async function fail(failures: AddressFailures, address: string, times: number): Promise<void> {
  for (let time = 0; time < times; time += 1) await failures.record(address);
}

t.test('failed logins are counted for all front doors together, and for each address separately', async (t) => {
  const redis = await ownRedis(startThrowAwayServices);
  const [first, second] = [openFor(redis.url), openFor(redis.url)];
  t.teardown(async () => {
    await Promise.all([first.close(), second.close()]);
    await redis.close();
  });
  await Promise.all([connected(redis, first, '198.51.100.1'), connected(redis, second, '198.51.100.2')]);
  await fail(first, '203.0.113.7', LIMIT - 1);
  t.equal(await second.isOver('203.0.113.7'), false, 'two of three');
  await fail(second, MAPPED, 1);
  t.equal(await first.isOver('203.0.113.7'), true);
  t.equal(await second.isOver('203.0.113.7'), true, 'also for the front door that saw only one itself');
  t.equal(await first.isOver('203.0.113.8'), false);
  await fail(first, '2001:db8:0:1::1', LIMIT);
  t.equal(await second.isOver('2001:db8:0:1:ffff::'), true, 'another address of the same network');
  t.equal(await second.isOver('2001:db8:0:2::1'), false);
  const [key] = (await redis.command('KEYS', '*203.0.113.7')) as string[];
  t.ok(Number(await redis.command('PTTL', key ?? '')) > 0, 'the key expires by itself');
});

t.test('failed logins of an address expire with their window', async (t) => {
  const redis = await ownRedis(startThrowAwayServices);
  const [failures, other] = [openFor(redis.url, { windowMs: 1_000 }), openFor(redis.url, { windowMs: 1_000 })];
  t.teardown(async () => {
    await Promise.all([failures.close(), other.close()]);
    await redis.close();
  });
  await Promise.all([connected(redis, failures, '198.51.100.1'), connected(redis, other, '198.51.100.2')]);
  await until('the address is over its limit', async () => {
    await fail(failures, '203.0.113.7', LIMIT);
    return failures.isOver('203.0.113.7');
  });
  await until(
    'the window has ended for both front doors',
    async () => !(await failures.isOver('203.0.113.7')) && !(await other.isOver('203.0.113.7')),
  );
});

t.test('while Redis is unreachable, each front door decides by the failed logins that it saw itself', async (t) => {
  const redis = await ownRedis(startThrowAwayServices);
  const failures = openFor(redis.url);
  t.teardown(async () => {
    await failures.close();
    await redis.close();
  });
  await connected(redis, failures, '198.51.100.1');
  await fail(failures, '203.0.113.7', LIMIT - 1);
  await redis.kill9();
  t.equal(await failures.isOver('203.0.113.7'), false);
  await fail(failures, '203.0.113.7', 1);
  t.equal(await failures.isOver('203.0.113.7'), true, 'failures before the outage count');
  t.equal(await failures.isOver('203.0.113.8'), false);
  await redis.start();
  await connected(redis, failures, '198.51.100.3');
  t.equal(await failures.isOver('203.0.113.7'), true, 'failures during the outage count after it');
});

t.test('a hung Redis delays one call of the failure counter by its time limit', async (t) => {
  const redis = await ownRedis(startThrowAwayServices);
  const log = captureLog();
  const failures = openFor(redis.url, { log, boundMs: 50 });
  t.teardown(async () => {
    redis.thaw();
    await failures.close();
    await redis.close();
  });
  await connected(redis, failures, '198.51.100.1');
  redis.freeze();
  await fail(failures, '203.0.113.7', LIMIT);
  t.equal(await failures.isOver('203.0.113.7'), true);
  t.match(
    log.lines.filter(({ level }) => level === 'warn'),
    [{ message: 'Redis connection lost', fields: { reason: 'No answer within 50 ms' } }],
  );
  redis.thaw();
  await connected(redis, failures, '198.51.100.2');
});

t.test('the failure counter never throws, without Redis or with a server that is not Redis', async (t) => {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', () => socket.write(':1\r\n$3\r\nabc\r\n*0\r\n'));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' ? (address?.port ?? 0) : 0;
  for (const url of ['redis://127.0.0.1:1', `redis://127.0.0.1:${port}`]) {
    const failures = openFor(url, { boundMs: 50 });
    for (let round = 0; round < 20; round += 1) await fail(failures, `203.0.113.${round}`, LIMIT);
    t.equal(await failures.isOver('203.0.113.19'), true);
    t.equal(await failures.isOver(''), false);
    await failures.close();
    t.equal(await failures.isOver('203.0.113.19'), true, 'even after close');
  }
  server.close();
});
