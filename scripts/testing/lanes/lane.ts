import { MongoClient } from 'mongodb';
import { startThrowAwayServices, type ThrowAwayServices } from '#scripts/services/throw-away.ts';

/**
 * The stores of the test files that run one after the other under one TAP_JOB_ID. Each lane has its own, so that no file slows
 * down or drops the databases of another.
 */
export interface Lane {
  /** Starts the stores on the first call; replaces them if the previous file left them dirty. Returns the environment of the next file. */
  prepare(): Promise<NodeJS.ProcessEnv>;
  /** Stops the stores and removes their data. */
  close(): Promise<void>;
}

const SYSTEM_DATABASES = ['admin', 'config', 'local'];
const CHECK_TIMEOUT_MS = 30_000;

/** Creates a lane without starting anything. A store that MONGODB_URL or REDIS_URL names is shared by all lanes and never replaced. */
export function createLane(say: (line: string) => void, env: NodeJS.ProcessEnv = process.env): Lane {
  const wanted = { mongodb: !env.MONGODB_URL, redis: !env.REDIS_URL };
  let services: ThrowAwayServices | undefined;

  return {
    async prepare() {
      const remains = services?.mongodb === undefined ? [] : await databasesOn(services.mongodb.url);
      if (remains.length > 0) {
        say(`replacing the database server: the previous file left ${remains.join(', ')}`);
        await services?.close();
        services = undefined;
      }
      services ??= await startThrowAwayServices({ ...wanted, say });
      return {
        ...(services.mongodb && { MONGODB_URL: services.mongodb.url, TEST_STORES_THROWN_AWAY: '1' }),
        ...(services.redis && { REDIS_URL: services.redis.url }),
      };
    },
    async close() {
      await services?.close();
    },
  };
}

/** Lists the databases that tests created. A server that does not answer is reported as one entry, so that it is replaced too. */
async function databasesOn(url: string): Promise<string[]> {
  const limits = { serverSelectionTimeoutMS: CHECK_TIMEOUT_MS, socketTimeoutMS: CHECK_TIMEOUT_MS };
  const client = new MongoClient(url, { ...limits, maxPoolSize: 1 });
  try {
    const { databases } = await client.db('admin').admin().listDatabases({ nameOnly: true });
    return databases.map(({ name }) => name).filter((name) => !SYSTEM_DATABASES.includes(name));
  } catch (error) {
    return [`it without an answer (${error instanceof Error ? error.message : String(error)})`];
  } finally {
    await client.close();
  }
}
