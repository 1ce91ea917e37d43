import type { ClientSession } from 'mongodb';
import { attempts, eventRows, seats, textRows, whereKey } from '#infra/mongo/attempt/collections.ts';
import { putRows, rowsOf } from '#infra/mongo/attempt/event-tail.ts';
import { linkOfSeat, seatId } from '#infra/mongo/attempt/insert-attempt.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { newStamp } from '#infra/mongo/guarded-update.ts';
import type { PersonKeys } from '#infra/mongo/schema/personal-fields/rules.ts';
import type { CollectionName } from '#infra/mongo/schema/personal-fields.ts';
import { erasedFields } from '#shared/attempt/erased.ts';
import type { ErasedCounts } from './erased-persons.ts';

/** Rows that a step of an erasure has changed. */
export interface Changed {
  collection: CollectionName;
  how: keyof ErasedCounts;
  rows: number;
}

interface At {
  now: Date;
  session: ClientSession;
}

/**
 * Rewrites an attempt, deletes its long texts and empties its event rows; afterwards each event has a row. Runs in a transaction: a
 * worker that changes the attempt meanwhile makes the transaction start again.
 */
async function rewriteAttempt(
  mongo: Mongo,
  attemptId: string,
  { id, pseudonym }: PersonKeys,
  { now, session }: At,
): Promise<Changed[]> {
  const attempt = await attempts(mongo).findOne({ _id: attemptId, studentId: id }, { session });
  if (attempt === null) return [];
  const $set = { ...erasedFields(attempt, pseudonym, now), stamp: newStamp() };
  const written = await attempts(mongo).updateOne(
    { ...whereKey(attempt), stamp: attempt.stamp },
    { $set },
    { session },
  );
  const texts = await textRows(mongo).deleteMany({ attemptId }, { session });
  const events = await eventRows(mongo).updateMany({ attemptId }, { $set: { metadata: '{}' } }, { session });
  // A front door that read the tail before this commit may copy its events to rows later. These rows take the ids, so that it cannot.
  await putRows(mongo, rowsOf(attemptId, $set.events), session);
  return [
    { collection: 'attempts', how: 'pseudonymised', rows: written.matchedCount },
    { collection: 'attempt_texts', how: 'deleted', rows: texts.deletedCount },
    { collection: 'attempt_events', how: 'pseudonymised', rows: events.matchedCount },
  ];
}

/** Moves a seat to the pseudonym: its `_id` contains the student's. The seat stays taken, because the limit of a link counts for ever. */
async function rewriteSeat(
  mongo: Mongo,
  seat: string,
  { pseudonym: studentId }: PersonKeys,
  { session }: At,
): Promise<Changed[]> {
  const linkId = linkOfSeat(seat);
  const row = await seats(mongo).findOne({ _id: seat, linkId }, { session });
  if (row === null) return [];
  await seats(mongo).deleteOne({ _id: seat, linkId }, { session });
  await seats(mongo).insertOne({ ...row, _id: seatId({ linkId, studentId }), studentId }, { session });
  return [{ collection: 'attempt_link_seats', how: 'pseudonymised', rows: 1 }];
}

/** Rewrites of single rows, each in the caller's transaction. */
export const REWRITES = { attempt: rewriteAttempt, seat: rewriteSeat } as const;
