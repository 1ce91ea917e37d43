import type { Mongo } from '../infra/mongo/connect.ts';

/**
 * Takes a test's database away, unless its whole server is thrown away after the tests (the runner then says so): the embedded
 * stand-in drops row by row and lets nobody else write meanwhile, which for the rows of a large fan-out takes minutes.
 */
export async function dropTestDatabase(mongo: Pick<Mongo, 'db'>): Promise<void> {
  if (process.env.TEST_STORES_THROWN_AWAY === '1') return;
  // A server that the test itself has taken away takes its data along.
  await mongo.db.dropDatabase().catch(() => undefined);
}
