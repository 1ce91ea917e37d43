import { type Mongo, QUERY_LIMIT_MS } from '../connect.ts';
import { attempts } from './collections.ts';

/** Ids of attempts still in progress whose deadline passed before `before` (Unix milliseconds), longest overdue first. */
export async function overdueAttempts(mongo: Mongo, before: number, limit: number): Promise<string[]> {
  const found = await attempts(mongo)
    .find(
      { status: 'IN_PROGRESS', deadlineAt: { $lte: new Date(before) } },
      { projection: { _id: 1 }, sort: { deadlineAt: 1 }, limit, maxTimeMS: QUERY_LIMIT_MS },
    )
    .toArray();
  return found.map((attempt) => attempt._id);
}
