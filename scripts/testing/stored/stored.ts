import type { Collection, Db } from 'mongodb';
import { attempts, type EventRow, type SeatRow } from '#infra/mongo/attempt/collections.ts';
import type { ThrottleRow } from '#infra/mongo/auth/collections.ts';
import { pairOf } from '#infra/mongo/auth/known-pairs.ts';
import { throttleKey } from '#infra/mongo/auth/throttle.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { COMMANDS, NOTICES } from '#infra/mongo/mailbox/commands.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import type { GradeNotice } from '#shared/attempt/notices.ts';
import type { Command } from '#shared/kernel/command.ts';
import { HOUR } from '#shared/kernel/time.ts';
import type { Cluster } from '#testing/processes/cluster.ts';
import { until } from '#testing/until.ts';

/** Returns the collections of a cluster, for tests that check stored documents. */
export function storedBy({ mongo }: Pick<Cluster, 'mongo'>) {
  return {
    attempts: mongo.collection<Attempt>('attempts'),
    events: mongo.collection<EventRow>('attempt_events'),
    seats: mongo.collection<SeatRow>('attempt_link_seats'),
    commands: mongo.collection<Command>(COMMANDS),
    notices: mongo.collection<Command>(NOTICES),
  };
}

/**
 * Sets deadline and close time of attempts to `at`, as if the start had named that close time. A start with a close time one second
 * ahead would make the test's own start and saves race against it on a slow machine.
 */
export async function closeExam(mongo: Db, attemptIds: string | readonly string[], at: Date): Promise<Date> {
  const ids = typeof attemptIds === 'string' ? [attemptIds] : [...attemptIds];
  const { matchedCount } = await mongo
    .collection<{ _id: string }>('attempts')
    .updateMany({ _id: { $in: ids } }, { $set: { deadlineAt: at, 'exam.closeTime': at } });
  if (matchedCount !== ids.length) throw new Error(`only ${matchedCount} of ${ids.length} attempts exist`);
  return at;
}

/** Rows of the outbox about one exam, by id. */
export function noticeRows(mongo: Mongo, examId: string): Promise<Command<GradeNotice>[]> {
  return mongo.db
    .collection<Command<GradeNotice>>(NOTICES)
    .find({ 'body.examId': examId }, { sort: { _id: 1 } })
    .toArray() as Promise<Command<GradeNotice>[]>;
}

/** The two rows that announce each of these attempts once, by id. */
export function announcements(attemptIds: readonly string[]): string[] {
  return attemptIds
    .flatMap((id) => [`${id}:notification:grade_released`, `${id}:notification:grade_released_parent`])
    .sort();
}

/** Waits until `count` attempts of the exam are graded and released; each was announced to the student and to the parents once. */
export async function announcedOnce(
  t: { strictSame(found: unknown, wanted: unknown): unknown },
  mongo: Mongo,
  examId: string,
  count: number,
): Promise<void> {
  const all = await until('all graded and released', async () => {
    const found = await attempts(mongo).find({ examId }).toArray();
    const done = found.filter(({ status, exam }) => status === 'GRADED' && exam.resultsReleasedAt !== null);
    return done.length === count ? done : null;
  });
  const rows = await noticeRows(mongo, examId);
  t.strictSame(
    rows.map(({ _id }) => _id),
    announcements(all.map(({ _id }) => _id)),
  );
}

/** Returns the throttles of a cluster's accounts. Tests move their times, because the shortest wait of one second ends while a test works. */
export function throttlesBy({ mongo }: Pick<Cluster, 'mongo'>) {
  const throttles: Collection<ThrottleRow> = mongo.collection('auth_throttles');
  const pairs: Collection<ThrottleRow> = mongo.collection('auth_known_pairs');

  async function pass(rows: Collection<ThrottleRow>, id: string, ms: number): Promise<ThrottleRow> {
    const row = await rows.findOne({ _id: id });
    if (row === null) throw new Error(`${rows.collectionName} has no ${id}`);
    const earlier = (date: Date) => new Date(date.getTime() - ms);
    const blockedUntil = row.blockedUntil && earlier(row.blockedUntil);
    await rows.updateOne({ _id: row._id }, { $set: { blockedUntil, lastTryAt: earlier(row.lastTryAt) } });
    return row;
  }

  async function hold(rows: Collection<ThrottleRow>, id: string): Promise<number> {
    const { blockedUntil, lastTryAt } = await pass(rows, id, -HOUR);
    return Number(blockedUntil) - lastTryAt.getTime();
  }

  return {
    /** Moves the account's throttle `ms` into the past, as if that time had passed since the last login attempt. */
    pass: async (email: string, ms: number) => void (await pass(throttles, throttleKey(email), ms)),
    /** Moves the account's throttle an hour ahead, so that its wait outlasts the test. Returns the length of the wait in milliseconds. */
    hold: (email: string) => hold(throttles, throttleKey(email)),
    /** Does the same to the counts of an account that signed in from this address. */
    holdPair: (email: string, address: string) => hold(pairs, pairOf(email, address).key),
  };
}
