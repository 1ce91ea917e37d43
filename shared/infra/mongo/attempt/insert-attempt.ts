import { randomInt } from 'node:crypto';
import type { ClientSession } from 'mongodb';
import type { Attempt } from '../../../attempt/attempt.ts';
import { type Mongo, QUERY_LIMIT_MS } from '../connect.ts';
import { isDuplicateKey } from '../faults.ts';
import { inTransaction } from '../transaction.ts';
import { attempts, type SeatRow, seats } from './collections.ts';

/** A seat that a start needs, on a link that counts its students. */
export interface SeatNeed {
  linkId: string;
  studentId: string;
  limit: number | null;
}

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
      return await inTransaction(mongo, budgetMs, async (session) => {
        if (!(await takeSeat(mongo, need, attempt.startedAt, session))) return 'full';
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

/** How many students hold a seat, and whether this one does. */
export async function seatFacts(mongo: Mongo, linkId: string, studentId: string) {
  const taken = await seats(mongo)
    .find({ linkId }, { projection: { studentId: 1 } })
    .toArray();
  return { seats: taken.length, hasSeat: taken.some((seat) => seat.studentId === studentId) };
}

/**
 * Takes a random free seat number below the limit: starts that come together rarely try for the same one, and when
 * they do the unique index lets one through. Students seated without a number count as well. False: none is free.
 */
async function takeSeat(mongo: Mongo, need: SeatNeed, now: Date, session: ClientSession): Promise<boolean> {
  const taken: Pick<SeatRow, 'studentId' | 'seat'>[] = await seats(mongo)
    .find({ linkId: need.linkId }, { projection: { studentId: 1, seat: 1 }, session })
    .toArray();
  if (taken.some((seat) => seat.studentId === need.studentId)) return true;
  const seat = need.limit === null ? null : freeSeat(taken, need.limit);
  if (seat === undefined) return false;
  await seats(mongo).insertOne(
    {
      _id: JSON.stringify([need.linkId, need.studentId]),
      linkId: need.linkId,
      studentId: need.studentId,
      seat,
      numbered: seat !== null,
      takenAt: now,
    },
    { session },
  );
  return true;
}

function freeSeat(taken: readonly Pick<SeatRow, 'seat'>[], limit: number): number | undefined {
  const numbers = new Set(taken.flatMap(({ seat }) => (seat === null ? [] : [seat])));
  const unnumbered = taken.length - numbers.size;
  const free: number[] = [];
  for (let seat = 0; seat < limit - unnumbered; seat++) if (!numbers.has(seat)) free.push(seat);
  return free.length === 0 ? undefined : free[randomInt(free.length)];
}
