import { randomBytes } from 'node:crypto';
import { type Mongo, openMongo } from '#infra/mongo/connect.ts';
import { createIndexes } from '#infra/mongo/schema/migrate.ts';
import { dropTestDatabase } from './drop-database.ts';

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
