import t from 'tap';
import { newId } from '#shared/kernel/ids.ts';
import type { DeliveryAttempt } from '#shared/notification/delivery.ts';
import { freshNotification } from '#testing/stored/stored-notifications.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { fanOuts, notificationEvents, notifications } from './collections.ts';
import { insertDeliveryAttempt, listDeliveryAttempts, type WantedAttempts } from './delivery-attempts.ts';
import { summarizeSupport } from './summarize-support.ts';

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
