import { MongoClient } from 'mongodb';
import { startThrowAwayServices, type ThrowAwayServices } from '#scripts/services/throw-away.ts';

/** A row of test files, one after the other, on databases of its own: no lane slows another down, or takes its databases away. */
export interface Lane {
  /** What the next file finds in its environment. */
  env(): NodeJS.ProcessEnv;
  /** After each file: a database server that is not as the first file found it is replaced. */
  tidy(): Promise<void>;
  close(): Promise<void>;
}

const OWN_DATABASES = ['admin', 'config', 'local'];
const LOOK_MS = 5_000;

/** Stores that the environment names (MONGODB_URL, REDIS_URL) are everybody's, and stay as they are. */
export async function openLane(say: (line: string) => void): Promise<Lane> {
  const { MONGODB_URL, REDIS_URL } = process.env;
  const wanted = { mongodb: !MONGODB_URL, redis: !REDIS_URL };
  let services: ThrowAwayServices = await startThrowAwayServices({ ...wanted, say });

  return {
    env: () => ({
      ...(services.mongodb && { MONGODB_URL: services.mongodb.url, TEST_STORES_THROWN_AWAY: '1' }),
      ...(services.redis && { REDIS_URL: services.redis.url }),
    }),
    async tidy() {
      if (services.mongodb === undefined) return;
      const remains = await leftOn(services.mongodb.url);
      if (remains.length === 0) return;
      say(`a fresh database server: the last one still held ${remains.join(', ')}`);
      await services.close();
      services = await startThrowAwayServices({ ...wanted, say });
    },
    close: () => services.close(),
  };
}

/** Names of databases; one that no longer answers is as good as full. */
async function leftOn(url: string): Promise<string[]> {
  const client = new MongoClient(url, { serverSelectionTimeoutMS: LOOK_MS, socketTimeoutMS: LOOK_MS, maxPoolSize: 1 });
  try {
    const { databases } = await client.db('admin').admin().listDatabases({ nameOnly: true });
    return databases.map(({ name }) => name).filter((name) => !OWN_DATABASES.includes(name));
  } catch (error) {
    return [`something that keeps it from answering (${error instanceof Error ? error.message : String(error)})`];
  } finally {
    await client.close();
  }
}
