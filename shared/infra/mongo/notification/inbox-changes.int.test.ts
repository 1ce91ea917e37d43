import t, { type Test } from 'tap';
import type { Mongo } from '#infra/mongo/connect.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { newId } from '#shared/kernel/ids.ts';
import { CONSISTENT_READ_MS } from '#shared/notification/fan-out.ts';
import type { Notification } from '#shared/notification/notification.ts';
import { newFromSnapshot, type Snapshot } from '#shared/notification/snapshot.ts';
import { scaled } from '#testing/chance.ts';
import { freshNotification, storeFanOutStates, storeNotifications } from '#testing/stored/stored-notifications.ts';
import { type Method, tappedDb } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { isStandInInPython } from '#testing/stores/plans.ts';
import { NOTIFICATIONS, notifications } from './collections.ts';
import { readConsistently } from './inbox.ts';
import { deleteAll, markAllRead } from './inbox-changes.ts';
import { putSnapshot } from './snapshots.ts';

const mongo = await openTestMongo(t);
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
  await storeFanOutStates(mongo, ['PUBLISHED', 'STAGING']);
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

/** Returns a read that is paused for `pauseMs` in each of its first `rounds` calls. */
function pausedRead(t: Test, rounds: number, pauseMs: number) {
  const { now } = performance;
  let paused = 0;
  let reads = 0;
  performance.now = () => now.call(performance) + paused;
  t.teardown(() => {
    performance.now = now;
  });
  return async () => {
    reads += 1;
    if (reads <= rounds) paused += pauseMs;
    return reads;
  };
}

t.test('a reader that is paused between its queries repeats them', async (t) => {
  t.equal(await readConsistently(mongo, pausedRead(t, 1, CONSISTENT_READ_MS)), 2);
});

t.test('a reader that is paused in every round fails', async (t) => {
  await t.rejects(readConsistently(mongo, pausedRead(t, 10, CONSISTENT_READ_MS)), /took too long/);
});

t.test('a reader ignores a pause that is too short for a row to move', async (t) => {
  t.equal(await readConsistently(mongo, pausedRead(t, 1, CONSISTENT_READ_MS / 2)), 1);
});

function snapshotOf(owned: Pick<Snapshot, 'id' | 'userId'>): Snapshot {
  return {
    ...owned,
    organizationId: 'org-1',
    type: 'SUPPORT_X',
    title: '$title',
    content: '$$NOW',
    isRead: true,
    readAt: null,
    deletedAt: null,
    createdAt: new Date('2026-01-01T00:00:00.000Z'),
  };
}

t.test('a snapshot inserts or replaces a row, but never one of another user', async (t) => {
  const mongo = await openTestMongo(t);
  const snapshot = snapshotOf({ id: 'legacy-7', userId: 'u' });
  const put = (change: Partial<Snapshot> = {}) =>
    putSnapshot(mongo, { ...snapshot, ...change }, (first) =>
      newFromSnapshot(first, { now: new Date(), organizationId: 'of-the-header' }),
    );
  const made = await Promise.all(Array.from({ length: 8 }, () => put()));
  t.equal(made.filter(({ kind }) => kind === 'created').length, 1, 'made once');
  await notifications(mongo).updateOne({ _id: snapshot.id }, { $set: { entity: 'Ticket', preferenceType: 'P' } });

  const readAt = (await notifications(mongo).findOne({ _id: snapshot.id }))?.readAt;
  const changed = await put({ title: 'T2', type: 'OTHER', organizationId: null });
  t.match(changed, {
    kind: 'updated',
    notification: {
      title: 'T2',
      content: '$$NOW',
      type: 'OTHER',
      isSupport: false,
      organizationId: 'org-1',
      readAt,
      entity: 'Ticket',
      preferenceType: 'P',
      place: 'INBOX',
    },
  });
  const created = snapshot.createdAt;
  const named = { entity: '$title', entityId: 'e', actorId: 'a', data: '{"$a":1}', sourceEventRef: 's:1' };
  const kept = { preferenceType: 'P', isRead: true, readAt, createdAt: created };
  t.match(await put({ ...named, isRead: null, createdAt: null, title: 'T2' }), { notification: { ...named, ...kept } });
  t.strictSame(await put({ userId: 'thief', title: 'mine' }), { kind: 'foreign' });
  t.match(await notifications(mongo).findOne({ _id: snapshot.id }), { userId: 'u', title: 'T2' });

  t.match(await put({ isRead: false, readAt: new Date() }), { notification: { isRead: false, readAt: null } });
  const deletedAt = new Date('2026-02-01T00:00:00.000Z');
  t.match(await put({ deletedAt }), { notification: { place: 'DELETED', deletedAt } });
  t.match(await put({ deletedAt: new Date() }), { notification: { place: 'DELETED', deletedAt } });
  t.match(await put({}), { kind: 'updated', notification: { place: 'DELETED', deletedAt } }, 'deleted for good');
});

/**
 * Lets the rows of one user be on a second shard, which does not know the ids of the first. A statement without a user reaches both.
 */
async function onTwoShards(
  mongo: TestMongo,
  userOfSecond: string,
): Promise<{ mongo: Mongo; rows: () => Promise<Notification[]> }> {
  const second = mongo.db.collection<Notification>('notifications_of_second_shard');
  await mongo.db.createCollection(second.collectionName);
  const db = tappedDb(mongo, (method, name, collection) => {
    if (collection !== NOTIFICATIONS) return undefined;
    return async (...args) => {
      const { userId } = args[0] as Partial<Notification>;
      const elsewhere = Reflect.get(second, name).bind(second) as Method;
      if (userId === undefined) return (await method(...args)) ?? (await elsewhere(...args));
      return userId === userOfSecond ? elsewhere(...args) : method(...args);
    };
  });
  const rows = async () => [...(await notifications(mongo).find().toArray()), ...(await second.find().toArray())];
  return { mongo: { ...mongo, db }, rows };
}

t.test('two users whose rows are on two shards never have one id', async (t) => {
  const shards = await onTwoShards(await openTestMongo(t), 'thief');
  const put = (id: string, userId: string) =>
    putSnapshot(shards.mongo, snapshotOf({ id, userId }), (first) =>
      newFromSnapshot(first, { now: new Date(), organizationId: null }),
    );
  const ids = Array.from({ length: 10 }, (_, n) => `legacy-${n}`);
  for (const id of ids) {
    const kinds = (await Promise.all([put(id, 'u'), put(id, 'thief'), put(id, 'u'), put(id, 'thief')])).map(
      ({ kind }) => kind,
    );
    t.strictSame(kinds.toSorted(), ['created', 'foreign', 'foreign', 'updated'], id);
  }
  t.strictSame((await shards.rows()).map(({ _id }) => _id).toSorted(), ids);

  const own = freshNotification({ userId: 'u' });
  await notifications(shards.mongo).insertOne(own);
  t.strictSame(
    await put(own._id, 'thief'),
    { kind: 'foreign' },
    'an id of this service, which no snapshot has created',
  );
  t.strictSame(await put(newId(), 'thief').then(({ kind }) => kind), 'created');
});
