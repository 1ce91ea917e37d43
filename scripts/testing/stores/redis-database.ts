import { randomInt } from 'node:crypto';
import { Redis } from 'ioredis';

const DATABASES = 15;
/** Expiry of a lock, longer than the time limit of a test file. */
const HOLD_SECONDS = 900;

/**
 * Reserves a Redis database for one cluster, so that workers of clusters in other test files do not answer its rings. Returns the URL
 * unchanged if Redis is unavailable or all databases are reserved: rings may then be lost, and the poll finds the commands.
 */
export async function takeRedisDatabase(url: string): Promise<{ url: string; give(): Promise<void> }> {
  const redis = new Redis(url, { lazyConnect: true, retryStrategy: null, connectTimeout: 30_000 });
  redis.on('error', () => undefined);
  const first = randomInt(DATABASES);
  try {
    await redis.connect();
    for (let tried = 0; tried < DATABASES; tried++) {
      const database = 1 + ((first + tried) % DATABASES);
      const lock = `examhall-test:database:${database}`;
      if ((await redis.set(lock, process.pid, 'EX', HOLD_SECONDS, 'NX')) !== 'OK') continue;
      return { url: withDatabase(url, database), give: () => give(url, database, lock) };
    }
  } catch {
    // Redis is unavailable: return the URL unchanged.
  } finally {
    redis.disconnect();
  }
  return { url, give: async () => undefined };
}

async function give(url: string, database: number, lock: string): Promise<void> {
  const redis = new Redis(url, { lazyConnect: true, retryStrategy: null, connectTimeout: 30_000 });
  redis.on('error', () => undefined);
  try {
    await redis.connect();
    await redis.multi().select(database).flushdb().select(0).del(lock).exec();
  } catch {
    // The database ended with its server; otherwise the lock expires.
  } finally {
    redis.disconnect();
  }
}

function withDatabase(url: string, database: number): string {
  const parsed = new URL(url);
  parsed.pathname = `/${database}`;
  return parsed.href;
}
