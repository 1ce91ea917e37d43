import type { Mongo } from '#infra/mongo/connect.ts';
import { notifications } from '#infra/mongo/notification/collections.ts';

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
