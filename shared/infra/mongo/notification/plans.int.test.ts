import type { Document } from 'mongodb';
import t from 'tap';
import { inCausalOrder } from '#infra/mongo/causal-read.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { createIndexes } from '#infra/mongo/schema/migrate.ts';
import { newId } from '#shared/kernel/ids.ts';
import { freshNotification, sampleFanOut, storeNotifications } from '#testing/stored/stored-notifications.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { noneScans, watchFilters } from '#testing/stores/plans.ts';
import { countAlertCall } from './alert-calls.ts';
import { fanOuts } from './collections.ts';
import { insertDeliveryAttempt, listDeliveryAttempts } from './delivery-attempts.ts';
import { findEvent, findEvents, idsOfFanOut, insertFanOut } from './fan-out.ts';
import {
  countUnread,
  findNotification,
  findNotificationOfAnyUser,
  findPosition,
  listNotifications,
  recentNotifications,
} from './inbox.ts';
import { deleteAll, deleteNotification, markAllRead, markRead } from './inbox-changes.ts';
import { findPreferences, patchPreferences, preferencesOf } from './preferences.ts';
import { putSnapshot } from './snapshots.ts';
import { orphanedFanOuts, rowsOfFanOut } from './stage-fan-out.ts';
import { summarizeSupport } from './summarize-support.ts';

t.test('no filter of the notification service scans a collection', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  const { seen } = watchFilters(mongo);
  await createIndexes(mongo);
  await storeNotifications(mongo, 20);
  await useInboxes(mongo);
  await noneScans(t, mongo, seen, 35);
});

t.test('a read of rows in several places is a snapshot, and one of inboxes alone is not', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  const reads: Document[] = [];
  Reflect.set(mongo.client, 'monitorCommands', true);
  mongo.client.on('commandStarted', ({ command }) => {
    const filter = command.find === undefined ? command.pipeline?.[0]?.$match : command.filter;
    if (filter?.place !== undefined) reads.push({ level: command.readConcern?.level, place: filter.place });
  });
  await createIndexes(mongo);
  await storeNotifications(mongo, 20);
  await useInboxes(mongo);
  const levels = (isOne: boolean) =>
    reads.filter(({ place }) => (place === 'INBOX') === isOne).map(({ level }) => level);
  t.ok(levels(true).length > 25 && levels(false).length > 25, `${reads.length} reads`);
  t.strictSame([...new Set(levels(true))], ['majority']);
  t.strictSame([...new Set(levels(false))], ['snapshot']);
});

/** Runs every read and write of inboxes, preferences and delivery attempts, and of the fan-outs that fill them. */
async function useInboxes(mongo: Mongo): Promise<void> {
  const { signal } = new AbortController();
  const source = { sourceService: 'exam-service', sourceEventId: 'e-1' };
  const made: string[] = [];
  for (const rowsAtOnce of [5, 2]) {
    const sample = sampleFanOut({ rows: 4, event: rowsAtOnce === 5 ? source : null, rowsAtOnce });
    await insertFanOut(mongo, sample);
    await preferencesOf(mongo, ['user-1', 'user-2']);
    await idsOfFanOut(mongo, sample.fanOutId);
    await inCausalOrder(mongo, (session) => rowsOfFanOut(mongo, sample.fanOutId, { after: 0, session }));
    made.push(sample.fanOutId);
  }
  await findEvent(mongo, { ...source, actorId: null });
  await findEvent(mongo, { ...source, actorId: 'teacher-1' });
  await findEvents(
    mongo,
    [null, 'teacher-1'].map((actorId) => ({ ...source, actorId })),
  );
  await countAlertCall(mongo, 'teacher-1', { limit: 1, now: Date.now() });
  await orphanedFanOuts(mongo, Date.now(), 5);

  // Twice: with and without a published fan-out that readers must include.
  for (const userId of ['user-1', 'user-2']) {
    await listInEveryWay(mongo, userId);
    const [row = freshNotification()] = await storeNotifications(mongo, 1, () => ({ userId }));
    await countUnread(mongo, userId);
    await recentNotifications(mongo, userId, new Date(0));
    await findNotification(mongo, row);
    await findNotificationOfAnyUser(mongo, row._id);
    for (const owner of [userId, null]) await findPosition(mongo, { _id: row._id, userId: owner });
    await markRead(mongo, row);
    await deleteNotification(mongo, row);
    await summarizeSupport(mongo, 5);
    await markAllRead(mongo, userId, signal);
    await deleteAll(mongo, userId, signal);
    for (const _id of made) await fanOuts(mongo).deleteOne({ _id });
  }
  const snapshot = {
    id: 's-1',
    userId: 'user-1',
    organizationId: null,
    type: 'T',
    title: 'T',
    content: '',
    isRead: false,
    readAt: null,
    deletedAt: null,
    createdAt: new Date(),
  };
  for (let n = 0; n < 2; n++) await putSnapshot(mongo, snapshot, () => freshNotification({ _id: 's-1' }));
  await patchPreferences(mongo, 'user-1', { enabledTypes: { A: false }, mutedUntil: null });
  await findPreferences(mongo, 'user-1');
}

async function listInEveryWay(mongo: Mongo, user: string): Promise<void> {
  const page = { page: 1, limit: 20 };
  for (const userId of [user, null]) {
    for (const filter of ['ALL', 'UNREAD', 'READ', 'SUPPORT'] as const) {
      for (const organizationId of ['org-1', null]) {
        for (const q of ['text', null]) {
          const wanted = { userId, filter, organizationId, q };
          await listNotifications(mongo, wanted, page);
          await listNotifications(mongo, wanted, { ...page, after: { _id: 'n-1', createdAt: new Date() } });
        }
      }
    }
  }
  const attempt = {
    notificationId: 'n-1',
    organizationId: null,
    channel: 'webhook',
    provider: 'p',
    attempt: 1,
    status: 'SENT' as const,
    providerId: null,
    nextRetryAt: null,
    error: null,
    metadata: null,
    createdAt: new Date(),
    updatedAt: new Date(),
  };
  await insertDeliveryAttempt(mongo, { _id: newId(), userId: user, ...attempt });
  const nothing = { organizationId: null, channel: null, provider: null, status: null, from: null, to: null };
  for (const wanted of [
    { userId: user, notificationId: null },
    { userId: null, notificationId: 'n-1' },
    { userId: null, notificationId: null },
  ]) {
    await listDeliveryAttempts(mongo, { ...nothing, ...wanted }, page);
    await listDeliveryAttempts(mongo, { ...nothing, ...wanted, from: new Date(0), to: new Date(), channel: 'c' }, page);
  }
}
