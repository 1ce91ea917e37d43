import { attempts } from '#infra/mongo/attempt/collections.ts';
import { seatId } from '#infra/mongo/attempt/insert-attempt.ts';
import { aiJobBatches, aiJobSelections, aiJobs } from '#infra/mongo/classifier/collections.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { newPseudonym } from '#infra/mongo/erased-persons.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { notificationEvents, notifications } from '#infra/mongo/notification/collections.ts';
import type { PersonKeys } from '#infra/mongo/schema/personal-fields/rules.ts';
import { type CollectionLink, type CollectionName, linksBy } from '#infra/mongo/schema/personal-fields.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import type { Place } from '#shared/notification/notification.ts';
import { filterOf } from './find.ts';
import { REWRITES } from './rewrite.ts';
import { allRows, BUDGET_MS, eraseBelow, eraseTogether, type Walk } from './walk.ts';

/** One portion of what has reached the end of its retention. Each function returns the number of rows that it has finished. */
export interface Expiry {
  /** Rows of before this time have expired. */
  before: Date;
  now: Date;
  limit: number;
}

const OWN_ATTEMPTS = ownRows('attempts');
const OWN_NOTIFICATIONS = ownRows('notifications');

/** Returns the link from a person to the rows that the person owns. */
function ownRows(collection: CollectionName): CollectionLink {
  const link = linksBy('person').find((one) => one.collection === collection);
  if (link === undefined) throw new Error(`no link leads from a person to ${collection}`);
  return link;
}

function walkOf(mongo: Mongo, keys: PersonKeys, now: Date): Walk {
  return { mongo, keys, now, waiting: new Map(), count: async () => undefined };
}

/** Position of a walk over the expired attempts, by their submit: those before `at` are done or wait, and `passed` waiting ones at `at`. */
export interface AttemptsPosition {
  at: Date;
  passed: number;
}

/**
 * Pseudonymises graded attempts that were submitted before a time, each by itself, exactly as an erasure of its student would. Scores stay.
 *
 * An attempt with a row that must wait, such as a notice in delivery, is left for a later walk. One walk takes several calls: each
 * continues at `from`, so that waiting attempts hold back no other. Returns the number of finished attempts and the position of the
 * next call, which is null at the end of the walk.
 */
export async function expireAttempts(
  mongo: Mongo,
  { before, now, limit }: Expiry,
  from: AttemptsPosition | null,
): Promise<{ finished: number; next: AttemptsPosition | null }> {
  const passed = from?.passed ?? 0;
  const submittedAt = { ...(from === null ? {} : { $gte: from.at }), $lt: before };
  const read = await attempts(mongo)
    .find(
      { status: 'GRADED', erasedAt: null, submittedAt },
      {
        projection: { studentId: 1, accessLinkId: 1, submittedAt: 1 },
        sort: { submittedAt: 1 },
        // Attempts that ended at one deadline have the same time, so the time alone is no position.
        limit: passed + limit,
        maxTimeMS: QUERY_LIMIT_MS,
      },
    )
    .toArray();
  const expired = read.slice(passed);
  const waiting: Date[] = [];
  let finished = 0;
  for (const attempt of expired) {
    if (await expireAttempt(mongo, attempt, now)) finished += 1;
    else if (attempt.submittedAt !== null) waiting.push(attempt.submittedAt);
  }
  const at = expired.length < limit ? null : (expired.at(-1)?.submittedAt ?? null);
  if (at === null) return { finished, next: null };
  const isAt = (time: Date) => time.getTime() === at.getTime();
  const earlier = from !== null && isAt(from.at) ? passed : 0;
  return { finished, next: { at, passed: earlier + waiting.filter(isAt).length } };
}

/** Pseudonymises one attempt with all rows that depend on it. Returns false if one of them has to wait. */
async function expireAttempt(
  mongo: Mongo,
  { _id, studentId, accessLinkId }: Pick<Attempt, '_id' | 'studentId' | 'accessLinkId'>,
  now: Date,
): Promise<boolean> {
  const keys = { id: studentId, pseudonym: newPseudonym() };
  const walk = walkOf(mongo, keys, now);
  const ready = await eraseBelow(walk, OWN_ATTEMPTS, [{ _id, studentId }]);
  if (ready.length === 0) return false;
  return inTransaction(mongo, BUDGET_MS, async (session) => {
    const mustWait = await eraseTogether(walk, OWN_ATTEMPTS, { left: { studentId }, ready }, session);
    if (mustWait !== null) return false;
    // The seat belongs to all attempts of the student on the link; it keeps the id while one of them does.
    const more = accessLinkId === null ? null : await attempts(mongo).findOne({ studentId, accessLinkId }, { session });
    if (accessLinkId !== null && more === null) {
      const seat = { _id: seatId({ linkId: accessLinkId, studentId }), linkId: accessLinkId };
      await REWRITES.seat(mongo, seat, keys, { now, session });
    }
    return true;
  });
}

/**
 * Deletes notifications that were created before a time, in one transaction with their deliveries and with the ids of snapshots. Rows that
 * are still staged stay.
 */
export async function expireNotifications(mongo: Mongo, { before, now, limit }: Expiry): Promise<number> {
  const expired = { place: { $in: ['INBOX', 'DELETED'] satisfies Place[] }, createdAt: { $lt: before } };
  const read = await notifications(mongo)
    .find(expired, { projection: { userId: 1 }, limit, maxTimeMS: QUERY_LIMIT_MS })
    .toArray();
  const rows = read.map(({ _id, userId }) => ({ _id, userId }));
  if (rows.length === 0) return 0;
  const walk = walkOf(mongo, { id: '', pseudonym: '' }, now);
  await eraseBelow(walk, OWN_NOTIFICATIONS, rows);
  await inTransaction(mongo, BUDGET_MS, async (session) => {
    // A snapshot may have given a row a later time since.
    const left = { ...expired, ...filterOf('notifications', rows) };
    const ready = await allRows(mongo, 'notifications', left, session);
    if (ready.length > 0) await eraseTogether(walk, OWN_NOTIFICATIONS, { left, ready }, session);
  });
  return rows.length;
}

/** Deletes events that were received before a time. A repeat of one creates its notifications again. */
export async function expireEvents(mongo: Mongo, { before, limit }: Expiry): Promise<number> {
  const expired = await notificationEvents(mongo)
    .find({ createdAt: { $lt: before } }, { projection: { _id: 1 }, limit, maxTimeMS: QUERY_LIMIT_MS })
    .toArray();
  const ids = expired.map(({ _id }) => _id);
  if (ids.length > 0) await notificationEvents(mongo).deleteMany({ _id: { $in: ids } });
  return ids.length;
}

/** Deletes classification jobs that ended before a time, each with its questions, results and commands in one transaction. */
export async function expireJobs(mongo: Mongo, { before, limit }: Expiry): Promise<number> {
  const expired = await aiJobs(mongo)
    .find(
      { status: { $in: ['COMPLETED', 'FAILED', 'CANCELLED'] }, finishedAt: { $lt: before } },
      { projection: { _id: 1 }, limit, maxTimeMS: QUERY_LIMIT_MS },
    )
    .toArray();
  for (const { _id } of expired) {
    await inTransaction(mongo, BUDGET_MS, async (session) => {
      // The owner may have restarted the job since.
      const { deletedCount } = await aiJobs(mongo).deleteOne({ _id, open: false }, { session });
      if (deletedCount === 0) return;
      await aiJobSelections(mongo).deleteOne({ _id }, { session });
      await aiJobBatches(mongo).deleteMany({ jobId: _id }, { session });
      await mailboxOf(mongo, 'classifier').deleteMany({ subject: _id }, { session });
    });
  }
  return expired.length;
}
