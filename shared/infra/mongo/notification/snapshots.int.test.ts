import t from 'tap';
import type { Mongo } from '#infra/mongo/connect.ts';
import { newId } from '#shared/kernel/ids.ts';
import type { Notification } from '#shared/notification/notification.ts';
import { newFromSnapshot, type Snapshot } from '#shared/notification/snapshot.ts';
import { freshNotification } from '#testing/stored/stored-notifications.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { type Method, tappedDb } from '#testing/stores/tapped-db.ts';
import { NOTIFICATIONS, notifications } from './collections.ts';
import { putSnapshot } from './snapshots.ts';

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
