import { randomInt } from 'node:crypto';
import { Redis } from 'ioredis';
import { startThrowAwayServices, type ThrowAwayService } from './throw-away.ts';

/** A Redis for one test, which it may freeze, kill and empty. */
export interface OwnRedis extends ThrowAwayService {
  command(name: string, ...args: string[]): Promise<unknown>;
  close(): Promise<void>;
}

export async function ownRedis(): Promise<OwnRedis> {
  const { redis, close } = await startThrowAwayServices({ mongodb: false });
  if (redis === undefined) throw new Error('the throw-away services came without Redis');
  const command = (name: string, ...args: string[]) => connected(redis.url, (client) => client.call(name, ...args));
  return { ...redis, close, command };
}

const DATABASES = 15;
/** Expiry of a lock, longer than the time limit of a test file. */
const HOLD_SECONDS = 900;

/**
 * Reserves a Redis database for one cluster, so that workers of clusters in other test files do not answer its rings. Returns the URL
 * unchanged if Redis is unavailable or all databases are reserved: rings may then be lost, and the poll finds the commands.
 */
export async function takeRedisDatabase(url: string): Promise<{ url: string; give(): Promise<void> }> {
  const first = randomInt(DATABASES);
  const database = await connected(url, async (redis) => {
    for (let tried = 0; tried < DATABASES; tried++) {
      const free = 1 + ((first + tried) % DATABASES);
      if ((await redis.set(lockOf(free), process.pid, 'EX', HOLD_SECONDS, 'NX')) === 'OK') return free;
    }
    return null;
  }).catch(() => null);
  if (database === null) return { url, give: async () => undefined };
  const free = () =>
    connected(url, (redis) => redis.multi().select(database).flushdb().select(0).del(lockOf(database)).exec());
  // If Redis is gone, the database ended with its server; otherwise the lock expires.
  const own = Object.assign(new URL(url), { pathname: `/${database}` });
  return { url: own.href, give: () => free().then(noop, noop) };
}

const lockOf = (database: number) => `examhall-test:database:${database}`;
const noop = () => undefined;

/** Does work on a new connection, which is not opened a second time. */
async function connected<T>(url: string, work: (redis: Redis) => Promise<T>): Promise<T> {
  const options = { protocol: 2, retryStrategy: () => null, connectTimeout: 30_000, disableClientInfo: true } as const;
  const redis = new Redis(url, { ...options, lazyConnect: true });
  redis.on('error', noop);
  try {
    await redis.connect();
    return await work(redis);
  } finally {
    redis.disconnect();
  }
}
