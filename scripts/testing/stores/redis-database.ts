import { randomInt } from 'node:crypto';
import { Redis } from 'ioredis';

const DATABASES = 15;
/** Longer than a test file may take. */
const HOLD_SECONDS = 900;

/**
 * A Redis database of one cluster's own: test files run side by side on one server, and another cluster's worker must not
 * answer this one's rings. Where none can be had (no Redis, all taken), the URL as it is: rings then get lost, and the
 * poll makes up for them.
 */
export async function takeRedisDatabase(url: string): Promise<{ url: string; give(): Promise<void> }> {
  const redis = new Redis(url, { lazyConnect: true, retryStrategy: null, connectTimeout: 2_000 });
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
    // Said above.
  } finally {
    redis.disconnect();
  }
  return { url, give: async () => undefined };
}

async function give(url: string, database: number, lock: string): Promise<void> {
  const redis = new Redis(url, { lazyConnect: true, retryStrategy: null, connectTimeout: 2_000 });
  redis.on('error', () => undefined);
  try {
    await redis.connect();
    await redis.multi().select(database).flushdb().select(0).del(lock).exec();
  } catch {
    // Gone with its server; the lock runs out.
  } finally {
    redis.disconnect();
  }
}

function withDatabase(url: string, database: number): string {
  const parsed = new URL(url);
  parsed.pathname = `/${database}`;
  return parsed.href;
}
