import type { ClientSession } from 'mongodb';
import { attempts, eventRows, seats, textRows, whereKey } from '#infra/mongo/attempt/collections.ts';
import { putRows, rowsOf } from '#infra/mongo/attempt/event-tail.ts';
import { seatId } from '#infra/mongo/attempt/insert-attempt.ts';
import { generations } from '#infra/mongo/classifier/collections.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { ErasedCounts } from '#infra/mongo/erased-persons.ts';
import { newStamp } from '#infra/mongo/guarded-update.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { PERSONAL_PARTS } from '#infra/mongo/schema/personal-fields/operation.ts';
import type { PersonKeys } from '#infra/mongo/schema/personal-fields/rules.ts';
import type { CollectionName } from '#infra/mongo/schema/personal-fields.ts';
import { erasedFields } from '#shared/attempt/erased.ts';
import { settlementOrder } from '#shared/classifier/commands.ts';
import type { CommandRef } from '#shared/kernel/command.ts';
import type { Located } from './find.ts';

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
  { _id: attemptId }: Located,
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
  located: Located,
  { pseudonym: studentId }: PersonKeys,
  { session }: At,
): Promise<Changed[]> {
  const { _id: seat } = located;
  const linkId = keyFieldOf(located, 'linkId');
  const row = await seats(mongo).findOne({ _id: seat, linkId }, { session });
  if (row === null) return [];
  await seats(mongo).deleteOne({ _id: seat, linkId }, { session });
  await seats(mongo).insertOne({ ...row, _id: seatId({ linkId, studentId }), studentId }, { session });
  return [{ collection: 'attempt_link_seats', how: 'pseudonymised', rows: 1 }];
}

/**
 * Replaces the actor and the key of a generation: the key is a digest that contains the actor. It also decides on which shard the row is,
 * and a sharded cluster moves a row only if the update names it and the old key, in a transaction. Its settlement command loses the key.
 */
async function rewriteGeneration(
  mongo: Mongo,
  located: Located,
  { id, pseudonym }: PersonKeys,
  { session }: At,
): Promise<Changed[]> {
  const { _id } = located;
  const filter = { _id, key: keyFieldOf(located, 'key'), 'actor.id': id };
  const $set = { 'actor.id': pseudonym, key: `erased:${_id}` };
  const { matchedCount } = await generations(mongo).updateOne(filter, { $set }, { session });
  if (matchedCount === 0) return [];
  const command = settlementOrder({ _id, key: filter.key });
  const withoutKey = [{ $unset: ['body.key'] }];
  await mailboxOf(mongo, command.queue).updateOne({ key: command.key, live: true }, withoutKey, { session });
  return [{ collection: 'ai_generations', how: 'pseudonymised', rows: matchedCount }];
}

/** Returns a field of the shard key. Throws if the row was read without it: a filter without the key would go to every shard. */
function keyFieldOf(located: Located, field: string): string {
  const value = located[field];
  if (typeof value !== 'string') throw new Error(`row ${located._id} was located without its ${field}`);
  return value;
}

/**
 * Removes the student and the remarks from a command that its sender posted while, or after, the student of the attempt was erased: the
 * erasure may not have found it.
 */
export async function emptyLateCommand(
  mongo: Mongo,
  { _id, queue, key }: CommandRef,
  session: ClientSession,
): Promise<void> {
  await mailboxOf(mongo, queue).updateOne({ _id, key }, [{ $unset: [...PERSONAL_PARTS] }], { session });
}

/** Rewrites of single rows, each in the caller's transaction. */
export const REWRITES = { attempt: rewriteAttempt, seat: rewriteSeat, generation: rewriteGeneration } as const;
