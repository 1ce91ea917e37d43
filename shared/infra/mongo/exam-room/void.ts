import type { ClientSession } from 'mongodb';
import { attempts, seats, whereKey } from '#infra/mongo/attempt/collections.ts';
import { EVENT_TIME } from '#infra/mongo/attempt/events.ts';
import { drawSeat, holdSeat, seatFacts, seatId } from '#infra/mongo/attempt/insert-attempt.ts';
import { readIn } from '#infra/mongo/causal-read.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { guardedUpdate, literal, Stale } from '#infra/mongo/guarded-update.ts';
import { NOTICES } from '#infra/mongo/mailbox/commands.ts';
import type { Attempt, AttemptKey, EventType } from '#shared/attempt/attempt.ts';
import type { StatedAct } from '#shared/attempt/events.ts';
import { type GradeNotice, gradeNotices, regradeNotices } from '#shared/attempt/notices.ts';
import type { Restorable } from '#shared/exam-room/rounds.ts';
import type { Command } from '#shared/kernel/command.ts';

/**
 * Voids an attempt that is submitted, in the caller's transaction. Its seat on a link is free again if no other attempt of the student
 * needs it, and notices of its result that are not delivered yet are withdrawn. Throws Stale if the attempt is open or voided, or has changed
 * since it was read.
 */
export async function voidAttempt(
  mongo: Mongo,
  attempt: Attempt,
  act: StatedAct,
  session: ClientSession,
): Promise<void> {
  const changes = { voidedAt: '$$NOW', voidedBy: literal(act.by), voidReason: literal(act.reason) };
  // The submit of an open attempt, in the same transaction, has found it unchanged. Of others a regrade may have queued notices meanwhile.
  const isUnchanged = attempt.status === 'IN_PROGRESS' || { $eq: ['$stamp', literal(attempt.stamp)] };
  const isCounted = { $eq: [{ $ifNull: ['$voidedAt', null] }, null] };
  await change(mongo, attempt, { type: 'VOIDED', act, when: { $and: [isCounted, isUnchanged] }, changes }, session);
  if (attempt.accessLinkId !== null && attempt.startLimits?.guests === true) {
    await freeSeat(mongo, { linkId: attempt.accessLinkId, studentId: attempt.studentId }, session);
  }
  await withdrawNotices(mongo, attempt, session);
}

/** Makes an attempt count again, in the caller's transaction. Throws Stale if it is not voided, or has changed since it was read. */
export async function restoreAttempt(
  mongo: Mongo,
  attempt: Attempt,
  act: StatedAct,
  session: ClientSession,
): Promise<void> {
  const changes = { voidedAt: literal(null), voidedBy: literal(null), voidReason: literal(null) };
  // A start that has counted without this attempt writes its stamp, so that one of the two is decided anew.
  const isUnchanged = { $eq: ['$stamp', literal(attempt.stamp)] };
  await change(mongo, attempt, { type: 'RESTORED', act, when: isUnchanged, changes }, session);
}

interface Change {
  type: EventType;
  act: StatedAct;
  when: object;
  changes: Readonly<Record<string, unknown>>;
}

async function change(
  mongo: Mongo,
  attempt: AttemptKey,
  { type, act, when, changes }: Change,
  session: ClientSession,
): Promise<void> {
  const event = {
    seq: { $add: ['$eventSeq', 1] },
    type,
    metadata: literal(JSON.stringify(act)),
    createdAt: EVENT_TIME,
  };
  const update = guardedUpdate([{ $ne: ['$status', 'IN_PROGRESS'] }, when], {
    ...changes,
    events: { $concatArrays: ['$events', [event]] },
    eventSeq: { $add: ['$eventSeq', 1] },
    boardAt: '$$NOW',
  });
  const written = await attempts(mongo).updateOne(whereKey(attempt), update.pipeline, { session });
  if (written.modifiedCount !== 1) throw new Stale(`attempt ${attempt._id}`);
}

type Seated = Parameters<typeof seatId>[0];

/** Deletes the seat of a student without another attempt on the link that counts. A start that relies on the seat writes it too. */
async function freeSeat(mongo: Mongo, seated: Seated, session: ClientSession): Promise<void> {
  const { linkId, studentId } = seated;
  const other = { studentId, accessLinkId: linkId, voidedAt: null };
  if ((await attempts(mongo).findOne(other, { session, projection: { _id: 1 } })) !== null) return;
  await seats(mongo).deleteOne({ _id: seatId(seated), linkId }, { session });
}

/** Takes what a restored attempt needs of its link, in the transaction of the restore. */
type TakeSeat = (session: ClientSession) => Promise<unknown>;

/**
 * Returns how a restored attempt takes its seat on a link, or null if the link is full. The unique index of seats decides between it and
 * concurrent starts. A seat that the student holds is written, because the void of another attempt may be about to free it.
 */
export async function seatToRestore(mongo: Mongo, attempt: Attempt, now: Date): Promise<TakeSeat | null> {
  const { accessLinkId: linkId, studentId, startLimits } = attempt;
  if (linkId === null || startLimits?.guests !== true) return async () => undefined;
  const need = { linkId, studentId, limit: startLimits.seats };
  if ((await seatFacts(mongo, need)).hasSeat) return (session) => holdSeat(mongo, need, now, session);
  const seat = await drawSeat(mongo, need, now);
  return seat === null ? null : (session) => seats(mongo).insertOne(seat, { session });
}

/** Returns the other attempts of the student at the exam. In a transaction, as that sees them. */
export async function othersOfStudent(
  mongo: Mongo,
  { _id, studentId, examId }: Attempt,
  session: ClientSession,
): Promise<(Pick<Attempt, '_id' | 'studentId' | 'status' | 'stamp'> & Restorable)[]> {
  const read = session.inTransaction() ? { session } : { ...readIn(session), maxTimeMS: QUERY_LIMIT_MS };
  return attempts(mongo)
    .find(
      { studentId, examId, _id: { $ne: _id } },
      {
        ...read,
        projection: {
          studentId: 1,
          stamp: 1,
          status: 1,
          attemptNumber: 1,
          voidedAt: 1,
          startLimits: 1,
          accessLinkId: 1,
        },
        hint: 'attempt_number_of_student',
      },
    )
    .toArray();
}

/** Deletes the notices of a result, and of its regrades, that are not delivered, in the caller's transaction. */
export async function withdrawNotices(mongo: Mongo, attempt: Attempt, session: ClientSession): Promise<void> {
  const regrades = (attempt.scoreHistory ?? []).flatMap(({ regradeId }) => regradeId ?? []);
  const notices = [...gradeNotices(attempt), ...regrades.flatMap((id) => regradeNotices(attempt, id))];
  const ids = notices.map(({ sourceEventId }) => sourceEventId);
  const undelivered = { _id: { $in: ids }, key: { $in: ids }, status: { $in: ['PENDING', 'DEAD'] } } as const;
  await mongo.db.collection<Command>(NOTICES).deleteMany({ ...undelivered }, { session });
}

/** Returns the time at which each of these notices was queued, by its id. One that does not exist is left out. */
export async function storedNotices(
  mongo: Mongo,
  notices: readonly GradeNotice[],
  session: ClientSession,
): Promise<Map<string, Date>> {
  const ids = notices.map(({ sourceEventId }) => sourceEventId);
  const found = await mongo.db
    .collection<Command>(NOTICES)
    .find({ _id: { $in: ids }, key: { $in: ids } }, { ...readIn(session), projection: { createdAt: 1 } })
    .toArray();
  return new Map(found.map(({ _id, createdAt }) => [_id, createdAt]));
}
