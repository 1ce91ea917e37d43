import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { attempts, seats } from './collections.ts';
import { drawSeat, type SeatNeed } from './link-seats.ts';

/**
 * - `inserted`;
 * - `raced`: a unique index says that another start of this student came first; look again;
 * - `full`: the link has no seat left. Nothing was written.
 */
export type InsertResult = 'inserted' | 'raced' | 'full';

/** Tries for a seat before giving up on a link whose seats are being taken under our hands. */
const SEAT_TRIES = 50;

/**
 * Inserts a new attempt, START event and all: one document, so all or nothing. Its unique indexes are what makes a
 * start happen once: open attempt, attempt number, start key. With `need`, the student's seat is taken in the same
 * transaction, so a start that fails leaves no seat behind.
 */
export async function insertAttempt(
  mongo: Mongo,
  attempt: Attempt,
  need: SeatNeed | null,
  budgetMs: number,
): Promise<InsertResult> {
  for (let round = 0; ; round++) {
    try {
      if (need === null) {
        await attempts(mongo).insertOne(attempt, { maxTimeMS: QUERY_LIMIT_MS });
        return 'inserted';
      }
      const seat = await drawSeat(mongo, need, attempt.startedAt);
      if (seat === null) return 'full';
      return await inTransaction<InsertResult>(mongo, budgetMs, async (session) => {
        await seats(mongo).insertOne(seat, { session });
        await attempts(mongo).insertOne(attempt, { session });
        return 'inserted';
      });
    } catch (error) {
      if (isDuplicateKey(error, ['linkId', 'seat']) && round < SEAT_TRIES) continue;
      if (isDuplicateKey(error)) return 'raced';
      throw error;
    }
  }
}
