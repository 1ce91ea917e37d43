import t from 'tap';
import { isDuplicateKey } from '#infra/mongo/faults.ts';
import { DELIVERIES } from '#infra/mongo/mailbox/commands.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import type { Command } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';
import type { Channel, DeliveryAttempt } from '#shared/notification/delivery.ts';
import { freshNotification, storeFanOutStates } from '#testing/stored/stored-notifications.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { notificationEvents, notifications } from './collections.ts';
import { queueDeliveries } from './deliveries.ts';
import { insertDeliveryAttempt, listDeliveryAttempts, type WantedAttempts } from './delivery-attempts.ts';
import { summarizeSupport } from './summarize-support.ts';

const NOW = 1_790_000_000_000;

/** Returns a notification of a user who has no other. */
const undelivered = (_id: string) => freshNotification({ _id, userId: `user-${_id}`, organizationId: 'org-1' });

t.test('one job per notification and channel is queued, with its cause or not at all', async (t) => {
  const mongo = await openTestMongo(t);
  const jobs = () =>
    mongo.db
      .collection<Command>(DELIVERIES)
      .find({}, { sort: { _id: 1 } })
      .toArray();
  const insert = (rows: ReturnType<typeof undelivered>[], channels: Channel[]) =>
    inTransaction(mongo, 60_000, async (session) => {
      await notifications(mongo).insertMany(rows, { session });
      return queueDeliveries(mongo, rows, { channels: new Set(channels), maxAttempts: 6, now: NOW, session });
    });

  t.strictSame(await insert([undelivered('n0')], []), [], 'without a channel there is nothing to do');
  t.strictSame(await jobs(), []);

  const [first, second] = [undelivered('n1'), undelivered('n2')];
  t.strictSame(await insert([first, second], ['log', 'webhook']), [
    { _id: 'n1:log', queue: 'delivery:log', key: 'n1:log' },
    { _id: 'n1:webhook', queue: 'delivery:webhook', key: 'n1:webhook' },
    { _id: 'n2:log', queue: 'delivery:log', key: 'n2:log' },
    { _id: 'n2:webhook', queue: 'delivery:webhook', key: 'n2:webhook' },
  ]);
  t.match(await jobs(), [
    {
      _id: 'n1:log',
      queue: 'delivery:log',
      key: 'n1:log',
      subject: 'n1',
      status: 'PENDING',
      maxAttempts: 6,
      nextRunAt: new Date(NOW),
      body: { notificationId: 'n1', userId: first.userId, channel: 'log' },
    },
    { _id: 'n1:webhook' },
    { _id: 'n2:log' },
    { _id: 'n2:webhook' },
  ]);

  const again = inTransaction(mongo, 60_000, async (session) => {
    await notifications(mongo).insertOne(undelivered('n3'), { session });
    const rows = [{ _id: 'n3', userId: 'u3' }, first];
    await queueDeliveries(mongo, rows, { channels: new Set(['log']), maxAttempts: 6, now: NOW, session });
  });
  await t.rejects(again);
  t.ok(await again.catch((error: unknown) => isDuplicateKey(error)), 'the second job of a notification and channel');
  t.equal((await jobs()).length, 4);
  t.equal(await notifications(mongo).findOne({ _id: 'n3' }), null, 'the notification is rolled back');
});

t.test('a job of a channel that its user has turned off is stored as suppressed and not rung for', async (t) => {
  const mongo = await openTestMongo(t);
  const [on, off] = [undelivered('on'), undelivered('off')];
  const preferences = new Map([
    [on.userId, { channels: { email: true } }],
    [off.userId, { channels: { email: false } }],
  ]);
  const channels = new Set<Channel>(['log', 'email']);
  const ring = await inTransaction(mongo, 60_000, (session) =>
    queueDeliveries(mongo, [on, off], { channels, maxAttempts: 6, preferences, now: NOW, session }),
  );
  t.strictSame(
    ring.map(({ _id }) => _id),
    ['on:log', 'on:email', 'off:log'],
  );
  const jobs = mongo.db.collection<Command>(DELIVERIES);
  t.match(await jobs.findOne({ _id: 'off:email' }), {
    status: 'SUPPRESSED',
    attempts: 0,
    result: { reason: 'CHANNEL_DISABLED' },
    settledAt: new Date(NOW),
    live: true,
  });
  const others = await jobs.find({ _id: { $ne: 'off:email' } }).toArray();
  t.strictSame([...new Set(others.map(({ status }) => status))], ['PENDING']);
});

const NOTHING: WantedAttempts = {
  userId: null,
  notificationId: null,
  organizationId: null,
  channel: null,
  provider: null,
  status: null,
  from: null,
  to: null,
};
const at = (n: number) => new Date(1_800_000_000_000 + n * 1_000);

function freshAttempt(n: number, change: Partial<DeliveryAttempt> = {}): Omit<DeliveryAttempt, 'isSupport'> {
  return {
    _id: newId(),
    notificationId: 'n-1',
    userId: 'u-1',
    organizationId: null,
    channel: 'webhook',
    provider: 'p',
    status: 'SENT',
    attempt: n,
    providerId: null,
    nextRetryAt: null,
    error: null,
    metadata: null,
    createdAt: at(n),
    updatedAt: at(n),
    ...change,
  };
}

t.test('delivery attempts are listed newest first and filtered by each of their fields', async (t) => {
  const mongo = await openTestMongo(t);
  const changes: Partial<DeliveryAttempt>[] = [
    {},
    { userId: 'u-2' },
    { notificationId: 'n-2' },
    { organizationId: 'org-1' },
    { channel: 'sms' },
    { provider: 'q' },
    { status: 'FAILED', metadata: '{"$a.b":1}', nextRetryAt: at(99) },
  ];
  for (const [n, change] of changes.entries()) await insertDeliveryAttempt(mongo, freshAttempt(n, change));
  const numbers = async (wanted: Partial<WantedAttempts>, page = { page: 1, limit: 100 }) => {
    const { rows, total } = await listDeliveryAttempts(mongo, { ...NOTHING, ...wanted }, page);
    return { numbers: rows.map(({ attempt }) => attempt), total };
  };
  t.strictSame(await numbers({}), { numbers: [6, 5, 4, 3, 2, 1, 0], total: 7 });
  t.strictSame(await numbers({}, { page: 2, limit: 3 }), { numbers: [3, 2, 1], total: 7 });
  for (const [wanted, found] of [
    [{ userId: 'u-2' }, [1]],
    [{ notificationId: 'n-2' }, [2]],
    [{ userId: 'u-2', notificationId: 'n-2' }, []],
    [{ organizationId: 'org-1' }, [3]],
    [{ channel: 'sms' }, [4]],
    [{ provider: 'q' }, [5]],
    [{ status: 'FAILED', userId: 'u-1' }, [6]],
    [{ from: at(2), to: at(4) }, [4, 3, 2]],
    [{ from: at(5) }, [6, 5]],
    [{ to: at(0), userId: 'u-1' }, [0]],
    [{ from: at(5), userId: 'u-1' }, [6, 5]],
    [{ from: at(4), to: at(4), userId: 'u-1' }, [4]],
    [{ from: at(4), to: at(4), notificationId: 'n-1' }, [4]],
  ] as const) {
    t.strictSame(await numbers(wanted), { numbers: [...found], total: found.length }, JSON.stringify(wanted));
  }
});

t.test('the support summary counts support and nothing else', async (t) => {
  const mongo = await openTestMongo(t);
  t.strictSame(await summarizeSupport(mongo, 5), { notifications: [], events: [], deliveryAttempts: [], recent: [] });
  const make = (change: Parameters<typeof freshNotification>[0]) => freshNotification(change);
  const reply = { type: 'SUPPORT_TICKET_REPLY', isSupport: true };
  const rows = [
    make({ ...reply, createdAt: at(1) }),
    make({ ...reply, createdAt: at(3), isRead: true }),
    make({ type: 'SUPPORT_TICKET_CREATED', createdAt: at(2), place: 'fan-out-1' }),
    make({ ...reply, place: 'DELETED' }),
    make({ ...reply, place: 'fan-out-2' }),
    make({ type: 'GRADE_RELEASED' }),
  ];
  await notifications(mongo).insertMany(rows);
  await storeFanOutStates(mongo, ['PUBLISHED', 'STAGING']);
  const event = {
    sourceService: null,
    sourceEventId: null,
    replayable: false,
    replayableByActor: false,
    preferenceType: null,
    entity: null,
    entityId: null,
    organizationId: null,
    actorId: null,
    targetUserIds: null,
    payload: null,
    created: 0,
    createdAt: new Date(),
  };
  await notificationEvents(mongo).insertMany([
    ...['e-1', 'e-2'].map((_id) => ({ ...event, _id, type: 'support.ticket.notification.v1', isSupport: true })),
    { ...event, _id: 'e-3', type: 'exam.assigned.notification.v1', isSupport: false },
  ]);
  for (const [n, row] of rows.entries()) {
    const status = n === 0 ? 'FAILED' : 'SENT';
    await insertDeliveryAttempt(mongo, freshAttempt(n, { notificationId: row._id, status }));
  }
  await insertDeliveryAttempt(mongo, freshAttempt(9, { notificationId: 'of another service' }));

  const { recent, ...counts } = await summarizeSupport(mongo, 2);
  const sorted = (list: readonly object[]) => list.map((one) => JSON.stringify(Object.entries(one).sort())).sort();
  const same = (found: readonly object[], wanted: readonly object[]) => t.strictSame(sorted(found), sorted(wanted));
  same(counts.notifications, [
    { type: 'SUPPORT_TICKET_REPLY', isRead: false, count: 1 },
    { type: 'SUPPORT_TICKET_REPLY', isRead: true, count: 1 },
    { type: 'SUPPORT_TICKET_CREATED', isRead: false, count: 1 },
  ]);
  same(counts.events, [{ type: 'support.ticket.notification.v1', count: 2 }]);
  same(counts.deliveryAttempts, [
    { status: 'FAILED', count: 1 },
    { status: 'SENT', count: 4 },
  ]);
  t.strictSame(
    recent.map(({ createdAt }) => createdAt),
    [at(3), at(2)],
    'newest first, up to the requested number',
  );
});
