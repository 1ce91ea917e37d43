import { randomBytes } from 'node:crypto';
import { type Mongo, openMongo } from '#infra/mongo/connect.ts';
import { notifications } from '#infra/mongo/notification/collections.ts';
import { createIndexes } from '#infra/mongo/schema/migrate.ts';

/** The part of a tap test that these need. */
export interface Teardown {
  teardown(work: () => unknown): void;
}

export interface TestMongo extends Mongo {
  url: string;
  database: string;
}

/**
 * A fresh database on MONGODB_URL, every index in place, dropped when the test ends. `empty` leaves the indexes out;
 * `url` names another server.
 */
export async function openTestMongo(t: Teardown, options: { url?: string; empty?: boolean } = {}): Promise<TestMongo> {
  const url = options.url ?? requiredEnv('MONGODB_URL');
  const database = `test_${randomBytes(6).toString('hex')}`;
  const mongo = openMongo({ url, database, appName: 'examhall-test' });
  t.teardown(async () => {
    await dropTestDatabase(mongo);
    await mongo.close();
  });
  if (options.empty !== true) await createIndexes(mongo);
  return { ...mongo, url, database };
}

export function requiredEnv(name: 'MONGODB_URL' | 'REDIS_URL'): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set: run this file through \`npm test -- <path>\``);
  return value;
}

/** Rows of a large fan-out, about. */
const LARGE = 3_000;

/**
 * Takes a test's database away, unless it is large and its whole server is thrown away after the tests (the runner then says so): the
 * embedded stand-in drops row by row and lets nobody else write meanwhile, which for a fan-out of ten thousand takes minutes.
 */
export async function dropTestDatabase(mongo: Mongo): Promise<void> {
  // A server that the test itself has taken away takes its data along.
  await dropUnlessLarge(mongo).catch(() => undefined);
}

async function dropUnlessLarge(mongo: Mongo): Promise<void> {
  const isThrownAway = process.env.TEST_STORES_THROWN_AWAY === '1';
  if (isThrownAway && (await notifications(mongo).estimatedDocumentCount()) > LARGE) return;
  await mongo.db.dropDatabase();
}
