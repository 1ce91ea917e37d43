import t from 'tap';
import type { Mongo } from '#infra/mongo/connect.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { scaled } from '#testing/chance.ts';
import { freshNotification, storeNotifications } from '#testing/stored/stored-notifications.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { isStandInInPython } from '#testing/stores/plans.ts';
import { tappedDb } from '#testing/stores/tapped-db.ts';
import { fanOuts, NOTIFICATIONS, notifications } from './collections.ts';
import { deleteAll, markAllRead } from './inbox-changes.ts';

const { signal } = new AbortController();
/** More rows than two commands change. The full run has as many as a user of ten years. */
const ROWS = scaled(500, 100_000);

/** Returns the same database, but calls `before` ahead of every updateMany on notifications. */
function slowed(mongo: TestMongo, before: () => Promise<unknown>): Mongo {
  const db = tappedDb(mongo, (method, name, collection) =>
    name !== 'updateMany' || collection !== NOTIFICATIONS
      ? undefined
      : async (...args) => {
          await before();
          return method(...args);
        },
  );
  return { client: mongo.client, db, close: mongo.close };
}

t.test('read-all and delete-all reach every row of one user, whatever its time, and count each once', async (t) => {
  const mongo = await openTestMongo(t);
  const first = new Date('2026-01-01T00:00:00.000Z');
  // A fan-out makes many rows at one instant, and a snapshot may contain any time.
  const at = (n: number) => new Date(n === 0 ? '2090-01-01T00:00:00.000Z' : 1e12 + Math.floor(n / 400));
  await storeNotifications(mongo, ROWS, (n) => ({
    createdAt: at(n),
    ...(n % 100 === 1 ? { isRead: true, readAt: first } : {}),
  }));
  const others = await storeNotifications(mongo, 2, () => ({ userId: 'another' }));
  const published = freshNotification({ place: 'fan-out-1' });
  const staged = freshNotification({ place: 'fan-out-2' });
  await fanOuts(mongo).insertMany(
    (['PUBLISHED', 'STAGING'] as const).map((state, n) => ({
      _id: `fan-out-${n + 1}`,
      state,
      source: null,
      rows: 1,
      staged: 1,
      stageBy: new Date(),
      publishedAt: null,
    })),
  );
  await notifications(mongo).insertMany([published, staged]);

  const read = ROWS / 100;
  t.equal(await markAllRead(mongo, 'student-1', signal), ROWS - read + 1);
  t.equal(await markAllRead(mongo, 'student-1', signal), 0);
  t.equal(await notifications(mongo).countDocuments({ isRead: true, readAt: first }), read, 'the first time stays');
  t.equal(await notifications(mongo).countDocuments({ isRead: true, readAt: null }), 0);

  const deleted = () => deleteAll(mongo, 'student-1', signal);
  // The stand-in in Python lets the later of two updates of the same rows wait until its time is over.
  const both = (await isStandInInPython(mongo))
    ? [await deleted(), await deleted()]
    : await Promise.all([deleted(), deleted()]);
  t.equal((both[0] ?? 0) + (both[1] ?? 0), ROWS + 1, 'two at once count each row once');
  t.equal(await notifications(mongo).countDocuments({ place: 'DELETED', deletedAt: null }), 0);
  const left = await notifications(mongo)
    .find({ place: { $ne: 'DELETED' } })
    .toArray();
  t.same(left.map(({ _id }) => _id).sort(), [...others, staged].map(({ _id }) => _id).sort());
  t.ok(left.every(({ isRead }) => !isRead));
});

t.test('rows that arrive during read-all or delete-all neither prolong it nor are changed', async (t) => {
  const mongo = await openTestMongo(t);
  await storeNotifications(mongo, 600, (n) => ({ createdAt: new Date(1e12 + n) }));
  for (const [name, all, count, commands] of [
    ['read-all', markAllRead, 600, 3],
    ['delete-all', deleteAll, 603, 4],
  ] as const) {
    let arrived = 0;
    const busy = slowed(mongo, async () => {
      // Without its bound the walk would continue for as long as rows arrive.
      if (arrived < 20) await storeNotifications(mongo, 1, () => ({ createdAt: new Date(2e12 + arrived++) }));
    });
    t.equal(await all(busy, 'student-1', signal), count, name);
    t.equal(arrived, commands, 'one for each command');
  }
  t.equal(await notifications(mongo).countDocuments({ place: 'INBOX', isRead: false }), 4);
});

t.test('a row that is deleted meanwhile is neither marked read nor deleted a second time', async (t) => {
  const mongo = await openTestMongo(t);
  await storeNotifications(mongo, 10);
  const deletedAt = new Date('2026-01-01T00:00:00.000Z');
  const half = (await notifications(mongo).find().limit(5).toArray()).map(({ _id }) => _id);
  const raced = slowed(mongo, () =>
    notifications(mongo).updateOne({ _id: half.pop() ?? '' }, { $set: { place: 'DELETED', deletedAt } }),
  );
  t.equal(await markAllRead(raced, 'student-1', signal), 9);
  t.equal(await deleteAll(raced, 'student-1', signal), 8);
  t.equal(await notifications(mongo).countDocuments({ isRead: false }), 1);
  t.equal(await notifications(mongo).countDocuments({ deletedAt }), 2);
});

t.test('a walk stops when its caller leaves, and a second walk changes the rest', async (t) => {
  const mongo = await openTestMongo(t);
  await storeNotifications(mongo, 600);
  const leaving = new AbortController();
  await t.rejects(
    markAllRead(
      slowed(mongo, async () => leaving.abort()),
      'student-1',
      leaving.signal,
    ),
  );
  t.equal(await notifications(mongo).countDocuments({ isRead: true }), 200, 'the chunk that was begun is completed');
  t.equal(await markAllRead(mongo, 'student-1', signal), 400);
});

t.test('concurrent delete-all and fan-outs delete each row once and break no fan-out', async (t) => {
  const mongo = await openTestMongo(t);
  const fanOut = (n: number) =>
    inTransaction(mongo, 60_000, async (session) => {
      const rows = ['student-1', 'student-2'].map((userId) => freshNotification({ userId, fanOutId: `f-${n}` }));
      await notifications(mongo).insertMany(rows, { session });
    });
  const deletions = Array.from({ length: 4 }, () => deleteAll(mongo, 'student-1', signal));
  const [counts] = await Promise.all([Promise.all(deletions), ...Array.from({ length: 10 }, (_, n) => fanOut(n))]);
  const rest = await deleteAll(mongo, 'student-1', signal);
  t.equal(
    [...counts, rest].reduce((sum, count) => sum + count, 0),
    10,
    'each row once',
  );
  t.equal(await notifications(mongo).countDocuments({ userId: 'student-2', place: 'INBOX' }), 10);
});
