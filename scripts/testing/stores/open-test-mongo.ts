import { randomBytes } from 'node:crypto';
import { type Mongo, type MongoLimits, openMongo } from '#infra/mongo/connect.ts';
import { notifications } from '#infra/mongo/notification/collections.ts';
import { createIndexes } from '#infra/mongo/schema/migrate.ts';

/** The part of a tap test that the helpers need. */
export interface Teardown {
  teardown(work: () => unknown): void;
}

export interface TestMongo extends Mongo {
  url: string;
  database: string;
}

/** Limits that outlast any pause of a busy machine. The product's own limits of three to five seconds would report an outage. */
export const PATIENT: MongoLimits = {
  serverSelectionTimeoutMS: 30_000,
  connectTimeoutMS: 30_000,
  socketTimeoutMS: 60_000,
  waitQueueTimeoutMS: 30_000,
};

/**
 * Opens a new database with all indexes on MONGODB_URL, and drops it when the test ends. `empty` omits the indexes; `url` names another
 * server. `limits` replaces the patient time limits: a test that stops its server sets none.
 */
export async function openTestMongo(
  t: Teardown,
  options: { url?: string; empty?: boolean; limits?: MongoLimits } = {},
): Promise<TestMongo> {
  const url = options.url ?? requiredEnv('MONGODB_URL');
  const database = `test_${randomBytes(6).toString('hex')}`;
  const mongo = openMongo({ url, database, appName: 'examhall-test' }, options.limits ?? PATIENT);
  t.teardown(async () => {
    await dropTestDatabase(mongo);
    await mongo.close();
  });
  if (options.empty !== true) await createIndexes(mongo);
  return { ...mongo, url, database };
}

/** Returns the URL of the store of this test file. @throws Error if tap started none, and the user set none */
export function requiredEnv(name: 'MONGODB_URL' | 'REDIS_URL'): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set: run this file through \`npx tap <path>\``);
  return value;
}

const LARGE = 3_000;

/**
 * Drops a test's database. Keeps a large one if TEST_STORES_THROWN_AWAY=1, because its server is deleted after the tests. The stand-in in
 * Python drops row by row and blocks all other writes meanwhile, which takes minutes for ten thousand rows.
 */
export async function dropTestDatabase(mongo: Mongo): Promise<void> {
  try {
    const isThrownAway = process.env.TEST_STORES_THROWN_AWAY === '1';
    if (isThrownAway && (await notifications(mongo).estimatedDocumentCount()) > LARGE) return;
    await mongo.db.dropDatabase();
  } catch {
    // A server that the test itself stopped has no data to delete.
  }
}
