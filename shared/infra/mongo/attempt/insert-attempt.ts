import { randomInt } from 'node:crypto';
import type { ClientSession } from 'mongodb';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { newStamp, Stale } from '#infra/mongo/guarded-update.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { freeSeat } from '#shared/attempt/start-rules.ts';
import { attempts, type SeatRow, seats } from './collections.ts';
import type { EarlierAttempt } from './earlier-attempts.ts';

/**
 * - `inserted`;
 * - `raced`: another start of this student won a unique index. Read the student's attempts again;
 * - `full`: the link has no seat left. Nothing was written.
 */
export type InsertResult = { kind: 'inserted' } | { kind: 'raced' } | { kind: 'full' };

/** A seat that a start needs, on a link that counts its students. */
export interface SeatNeed {
  linkId: string;
  studentId: string;
  /** Maximum number of students on the link; null = unlimited. */
  limit: number | null;
}

/** Rows on which the decision of a start relies. */
export interface Reliance {
  /** The seat that it needs, or has; null without one. */
  seat: (SeatNeed & { isHeld: boolean }) | null;
  /** Voided attempts, which the start has not counted. */
  voided: readonly Pick<EarlierAttempt, '_id' | 'studentId' | 'stamp'>[];
}

/** Seats that a start may lose to concurrent starts and draw again. After that it returns `raced`. */
const MAX_SEAT_DRAWS = 50;

/**
 * Inserts a new attempt with its START event: one document, so all or nothing. Its unique indexes (open attempt, attempt number,
 * start key) make a start happen once. A seat that the start needs is taken in the same transaction, so a start that fails leaves no
 * seat behind. What the start relies on is written too, so that an act which changes it meanwhile makes the start decide anew.
 */
export async function insertAttempt(
  mongo: Mongo,
  attempt: Attempt,
  reliance: Reliance,
  budgetMs: number,
): Promise<InsertResult> {
  const { seat: need, voided } = reliance;
  for (let draws = 0; ; draws++) {
    try {
      if (isAlone(reliance)) {
        await attempts(mongo).insertOne(attempt, { maxTimeMS: QUERY_LIMIT_MS });
        return { kind: 'inserted' };
      }
      const seat = need === null || need.isHeld ? undefined : await drawSeat(mongo, need, attempt.startedAt);
      if (seat === null) return { kind: 'full' };
      return await inTransaction<InsertResult>(mongo, budgetMs, async (session) => {
        if (seat !== undefined) await seats(mongo).insertOne(seat, { session });
        if (need?.isHeld === true) await holdSeat(mongo, need, attempt.startedAt, session);
        for (const one of voided) await holdVoided(mongo, one, session);
        await attempts(mongo).insertOne(attempt, { session });
        return { kind: 'inserted' };
      });
    } catch (error) {
      if (error instanceof Stale) return { kind: 'raced' };
      if (isDuplicateKey(error, ['linkId', 'seat']) && draws < MAX_SEAT_DRAWS) continue;
      if (isDuplicateKey(error)) return { kind: 'raced' };
      throw error;
    }
  }
}

/** Returns true if the insert of the attempt is all that a start writes. */
export function isAlone({ seat, voided }: Reliance): boolean {
  return seat === null && voided.length === 0;
}

/** Writes the seat that the student holds: the void of another attempt may be about to free it. Throws Stale if it is free. */
export async function holdSeat(mongo: Mongo, need: SeatNeed, usedAt: Date, session: ClientSession): Promise<void> {
  const held = { _id: seatId(need), linkId: need.linkId };
  const written = await seats(mongo).updateOne(held, { $set: { usedAt } }, { session });
  if (written.matchedCount !== 1) throw new Stale(`seat of ${need.linkId}`);
}

/** Writes an attempt that the caller has not counted: its restore may be about to make it count. Throws Stale if it has changed. */
export async function holdVoided(
  mongo: Mongo,
  voided: Reliance['voided'][number],
  session: ClientSession,
): Promise<void> {
  const { _id, studentId, stamp } = voided;
  const written = await attempts(mongo).updateOne(
    { _id, studentId, stamp },
    { $set: { stamp: newStamp() } },
    { session },
  );
  if (written.matchedCount !== 1) throw new Stale(`attempt ${_id}`);
}

/**
 * Deletes an attempt that was just inserted, with the seat that its start has taken. Does nothing if an erasure has found the attempt
 * already.
 */
export async function withdrawAttempt(
  mongo: Mongo,
  { _id, studentId }: Attempt,
  taken: SeatNeed | null,
  budgetMs: number,
): Promise<void> {
  await inTransaction(mongo, budgetMs, async (session) => {
    await attempts(mongo).deleteOne({ _id, studentId }, { session });
    if (taken !== null) await seats(mongo).deleteOne({ _id: seatId(taken), linkId: taken.linkId }, { session });
  });
}

/** While less than 1 / SPARSE of the seats is taken, a seat drawn at random is usually free. */
const SPARSE = 4;

/**
 * Draws a seat for the student at random, so that concurrent starts rarely draw the same one. If they do, the unique index
 * accepts only one of them. Returns null if the link is full.
 */
export async function drawSeat(mongo: Mongo, need: SeatNeed, now: Date): Promise<SeatRow | null> {
  const { limit } = need;
  if (limit === null) return seatRow(need, null, now);
  const count = await countSeats(mongo, need.linkId, limit);
  // `count` students have a seat. With a seat number below `limit - count` the link stays within its limit, whichever seats they
  // have.
  const seat = count * SPARSE < limit ? randomBelow(limit - count) : await drawAmong(mongo, need.linkId, limit);
  return seat === null ? null : seatRow(need, seat, now);
}

async function drawAmong(mongo: Mongo, linkId: string, limit: number): Promise<number | null> {
  const rows: Pick<SeatRow, 'seat'>[] = await seats(mongo)
    .find({ linkId }, { projection: { _id: 0, seat: 1 }, maxTimeMS: QUERY_LIMIT_MS })
    .toArray();
  const taken = rows.flatMap(({ seat }) => (seat === null ? [] : [seat]));
  return freeSeat({ taken, unnumbered: rows.length - taken.length, limit }, Math.random());
}

/** Upper bound of `randomInt`. A link with more seats uses only the first MAX_SEATS. */
const MAX_SEATS = 2 ** 48 - 1;

function randomBelow(bound: number): number {
  return randomInt(Math.min(bound, MAX_SEATS));
}

function seatRow({ linkId, studentId }: SeatNeed, seat: number | null, now: Date): SeatRow {
  return { _id: seatId({ linkId, studentId }), linkId, studentId, seat, numbered: seat !== null, takenAt: now };
}

/** Returns how many students hold a seat (counted up to the limit, 0 without a limit) and whether this student holds one. */
export async function seatFacts(mongo: Mongo, need: SeatNeed): Promise<{ seats: number; hasSeat: boolean }> {
  const [own, count] = await Promise.all([
    seats(mongo).findOne(
      { _id: seatId(need), linkId: need.linkId },
      { projection: { _id: 1 }, maxTimeMS: QUERY_LIMIT_MS },
    ),
    need.limit === null ? 0 : countSeats(mongo, need.linkId, need.limit),
  ]);
  return { seats: count, hasSeat: own !== null };
}

function countSeats(mongo: Mongo, linkId: string, limit: number): Promise<number> {
  return seats(mongo).countDocuments({ linkId }, { limit, maxTimeMS: QUERY_LIMIT_MS });
}

/** Returns the `_id` of a seat row: link and student. */
export function seatId({ linkId, studentId }: Pick<SeatNeed, 'linkId' | 'studentId'>): string {
  return JSON.stringify([linkId, studentId]);
}
