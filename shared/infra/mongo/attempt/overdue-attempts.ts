import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { attempts } from './collections.ts';

/**
 * Ids of attempts still in progress whose deadline passed before `before` (Unix milliseconds), longest overdue first, in
 * chunks. One walk over the index: an attempt that stays in progress comes once and is passed.
 */
export async function* overdueAttempts(mongo: Mongo, before: number, chunk: number): AsyncGenerator<string[]> {
  const cursor = attempts(mongo).find(
    { status: 'IN_PROGRESS', deadlineAt: { $lte: new Date(before) } },
    { projection: { _id: 1 }, sort: { deadlineAt: 1 }, batchSize: chunk, maxTimeMS: QUERY_LIMIT_MS },
  );
  let ids: string[] = [];
  // Left early, the loop closes the cursor.
  for await (const { _id } of cursor) {
    ids.push(_id);
    if (ids.length < chunk) continue;
    yield ids;
    ids = [];
  }
  if (ids.length > 0) yield ids;
}
