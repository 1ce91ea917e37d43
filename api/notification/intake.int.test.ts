import t, { type Test } from 'tap';
import type { Reply } from '#api/route.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { ERASED_PERSONS } from '#infra/mongo/erased-persons.ts';
import { COMMANDS, DELIVERIES } from '#infra/mongo/mailbox/commands.ts';
import {
  ALERT_CALLS,
  DELIVERY_ATTEMPTS,
  NOTIFICATION_EVENTS,
  NOTIFICATIONS,
  notificationEvents,
  notificationSuppressions,
  notifications,
  SNAPSHOT_IDS,
} from '#infra/mongo/notification/collections.ts';
import { openIntakeStore } from '#infra/mongo/notification/intake-store.ts';
import { patchPreferences } from '#infra/mongo/notification/preferences.ts';
import { summarizeSupport } from '#infra/mongo/notification/summarize-support.ts';
import { expireSuppressions } from '#infra/mongo/notification/suppressions.ts';
import { erasePerson } from '#infra/mongo/person/erase.ts';
import { countRows } from '#infra/mongo/person/find.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { newId } from '#shared/kernel/ids.ts';
import { MAX_SUPPRESSED } from '#shared/notification/event.ts';
import { MAX_AT_ONCE } from '#shared/notification/fan-out.ts';
import { callExamhall } from '#testing/processes/run-examhall.ts';
import { tappedDb } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo, requiredEnv } from '#testing/stores/open-test-mongo.ts';
import { recordDeliveryAttempt } from './deliveries.ts';
import type { NotificationDeps } from './deps.ts';
import { changePreferences } from './inbox.ts';
import { createBatch, createOneNotification, raiseWeakTopic, receiveEvent, storeSnapshot } from './intake.ts';

const mongo = await openTestMongo(t);
const REDIS_URL = requiredEnv('REDIS_URL');
const text = { type: 'SUPPORT_TICKET', title: 'Tiêu đề', content: 'Nội dung' };

/** A front door, and the users whose streams it has woken. */
function doorOn(on: Mongo) {
  const woken: string[] = [];
  const deps = {
    mongo: on,
    intake: openIntakeStore(on),
    now: Date.now,
    channels: new Set(['log']),
    pushKey: null,
    unsubscribeKey: null,
    deliveryAttempts: 3,
    commandAttempts: 3,
    isAudited: false,
    doorbells: { ring: async () => true },
    notifyStreams: (userIds: readonly string[]) => void woken.push(...userIds),
  } as unknown as NotificationDeps;
  return { deps, woken };
}

/** Sends a request. Returns its reply and its id. */
async function send(intake: typeof createOneNotification | typeof createBatch, body: object, on = mongo) {
  const requestId = `request-${newId()}`;
  const reply = await intake(doorOn(on).deps, { body, params: {}, identity: { sender: 's' }, requestId } as never);
  return { reply: reply as Reply, requestId };
}

async function mutedUser(): Promise<string> {
  const userId = `user-${newId()}`;
  await patchPreferences(mongo, userId, { enabledTypes: {}, mutedUntil: new Date(Date.now() + 3_600_000) });
  return userId;
}

async function disabledUser(): Promise<string> {
  const userId = `user-${newId()}`;
  await patchPreferences(mongo, userId, { enabledTypes: { [text.type]: false }, mutedUntil: undefined });
  return userId;
}

/** Returns the first five lines of a trace. */
async function traced(t: Test, wanted: string): Promise<string[]> {
  const { code, out, err } = await callExamhall(mongo, ['trace', wanted], { env: { REDIS_URL } });
  t.equal(code, 0, err);
  return out.split('\n').slice(0, 5);
}

t.test('a single notification that a preference suppresses is found by its user and by its request', async (t) => {
  const before = await summarizeSupport(mongo, 1);
  const why = { MUTED: 'the user has muted notifications', TYPE_DISABLED: 'the user has disabled this type' };
  for (const [reason, userId] of [
    ['MUTED', await mutedUser()],
    ['TYPE_DISABLED', await disabledUser()],
  ] as const) {
    const { reply, requestId } = await send(createOneNotification, { ...text, userId });
    t.strictSame(reply, {
      status: 200,
      data: { notification: null, created: 0, suppressed: [{ userId, reason }] },
    });
    const line = `dropped: not notified: ${why[reason]}`;
    for (const wanted of [`user:${userId}`, requestId]) {
      const lines = await traced(t, wanted);
      t.ok(
        lines.some((one) => one.startsWith(line)),
        `${wanted}: ${lines.join('\n')}`,
      );
    }
  }
  t.strictSame(await summarizeSupport(mongo, 1), before, 'the support summary counts nothing of it');
  t.equal(await notificationEvents(mongo).countDocuments(), 0);
});

t.test('a batch without an event stores whom it did not notify, at most as many as an event', async (t) => {
  const [muted, other] = [await mutedUser(), `user-${newId()}`];
  const rows = [muted, other].map((userId) => ({ ...text, userId }));
  const { reply, requestId } = await send(createBatch, { notifications: rows });
  t.match(reply, { status: 201, data: { created: 1, suppressed: [{ userId: muted, reason: 'MUTED' }] } });
  t.match(await notificationSuppressions(mongo).find({ requestId }).toArray(), [
    { userId: muted, reason: 'MUTED', type: text.type },
  ]);
  t.ok((await traced(t, `user:${muted}`)).some((line) => line.startsWith('dropped: not notified')));
  const many = Array.from({ length: MAX_SUPPRESSED + 1 }, () => ({ ...text, userId: muted }));
  const { requestId: large } = await send(createBatch, { notifications: many });
  t.equal(await notificationSuppressions(mongo).countDocuments({ requestId: large }), MAX_SUPPRESSED);
  const event = { sourceService: 's', sourceEventId: newId(), type: 'T' };
  const { requestId: ofEvent } = await send(createBatch, { notifications: rows, event });
  t.equal(await notificationSuppressions(mongo).countDocuments({ requestId: ofEvent }), 0, 'its event stores them');
});

t.test('a suppression leaves nothing of a person whom an erasure overtakes', async (t) => {
  const userId = await mutedUser();
  const act = { operator: 'an', reason: 'a test', now: Date.now() };
  let erased = 0;
  const db = tappedDb(mongo, (method, name, collection) => {
    if (!name.startsWith('insert') || collection !== 'notification_suppressions') return undefined;
    return async (...args) => {
      erased += 1;
      await erasePerson(mongo, userId, act);
      return method(...args);
    };
  });
  await send(createOneNotification, { ...text, userId }, { ...mongo, db });
  t.equal(erased, 1);
  t.equal(await notificationSuppressions(mongo).countDocuments({ userId }), 0);
  t.match((await send(createOneNotification, { ...text, userId })).reply, {
    data: { suppressed: [{ userId, reason: 'ERASED' }] },
  });
  t.equal(await notificationSuppressions(mongo).countDocuments({ userId }), 0, 'nothing is stored under an erased id');
});

t.test('the retention of notifications ends suppressions too', async (t) => {
  const userId = await mutedUser();
  const { requestId } = await send(createOneNotification, { ...text, userId });
  await expireSuppressions(mongo, { before: new Date(0), limit: 100 });
  t.equal(await notificationSuppressions(mongo).countDocuments({ requestId }), 1);
  await expireSuppressions(mongo, { before: new Date(Date.now() + 1_000), limit: 10_000 });
  t.equal(await notificationSuppressions(mongo).countDocuments({ requestId }), 0);
});

const ROWS = [COMMANDS, DELIVERIES, ALERT_CALLS, DELIVERY_ATTEMPTS, NOTIFICATION_EVENTS, NOTIFICATIONS, SNAPSHOT_IDS];

/** Returns a MongoDB where the erasure of the person runs, to its end, just before the first insert into the collection. */
function erasedBeforeInsert(person: string, collection: string): { mongo: Mongo; times: () => number } {
  let times = 0;
  const db = tappedDb(mongo, (method, name, inserted) => {
    if (!name.startsWith('insert') || inserted !== collection) return undefined;
    return async (...args) => {
      times += 1;
      const act = { operator: 'an', reason: 'a test', now: Date.now() };
      if (times === 1) t.equal((await erasePerson(mongo, person, act)).kind, 'erased');
      return method(...args);
    };
  });
  return { mongo: { ...mongo, db }, times: () => times };
}

type Intake = (deps: NotificationDeps, call: never) => Promise<Reply | Rejection>;

/** Sends the request while the person is erased, just before `collection` gets its first row. Returns the reply. */
async function race(person: string, collection: string, intake: Intake, body: object) {
  const erased = erasedBeforeInsert(person, collection);
  const door = doorOn(erased.mongo);
  const identity = { sender: 's', actor: { id: person, role: 'ADMIN' } };
  const reply = await intake(door.deps, { body, params: { notificationId: `legacy-${newId()}` }, identity } as never);
  t.ok(erased.times() > 0, 'the erasure ran');
  t.notOk(door.woken.includes(person), 'the stream of the person is not woken');
  await nothingNames(person);
  return reply;
}

/** Checks that no row of the notification service names the person, also those that erasures do not search for. */
async function nothingNames(person: string): Promise<void> {
  t.strictSame([...(await countRows(mongo, { id: person, emailDigest: null }))], []);
  for (const name of ROWS) {
    const rows = await mongo.db.collection(name).find().toArray();
    t.notOk(JSON.stringify(rows).includes(person), `no row of ${name} names the person`);
  }
}

t.test(
  'a notification to a person, about one or by one, whom an erasure overtakes, leaves nothing of the person',
  async (t) => {
    for (const field of ['userId', 'entityId', 'actorId']) {
      const person = `person-${newId()}`;
      const body = { ...text, userId: 'other', [field]: person };
      const reply = await race(person, NOTIFICATIONS, createOneNotification, body);
      const suppressed = { status: 200, data: { notification: null, created: 0, suppressed: [{ reason: 'ERASED' }] } };
      const created = { status: 201, data: { notification: { actorId: null }, created: 1 } };
      t.match(reply, field === 'actorId' ? created : suppressed, field);
    }
  },
);

t.test('a batch and an event leave nothing of a person whom an erasure overtakes, and notify the others', async (t) => {
  for (const intake of [createBatch, receiveEvent] as const) {
    for (const collection of [NOTIFICATION_EVENTS, NOTIFICATIONS]) {
      const [person, other] = [`person-${newId()}`, `user-${newId()}`];
      const event = {
        sourceService: 's',
        sourceEventId: newId(),
        type: 'T',
        actorId: person,
        entityId: person,
        targetUserIds: [person, other],
        payload: { name: 'An' },
      };
      const rows = [person, other].map((userId) => ({ ...text, userId }));
      const body = intake === createBatch ? { notifications: rows, event } : { notifications: rows, ...event };
      const reply = await race(person, collection, intake as Intake, body);
      const seen = { actorId: null, entityId: null };
      t.match(reply, { status: 201, data: { suppressed: [{ userId: person, reason: 'ERASED' }], event: seen } });
      t.equal(await notifications(mongo).countDocuments({ userId: other, place: 'INBOX' }), 1);
    }
  }
});

t.test(
  'an erasure that overtakes one of the events of a moment leaves nothing of the person, and the others whole',
  async (t) => {
    const [person, ...others] = [`person-${newId()}`, `user-${newId()}`, `user-${newId()}`];
    const erased = erasedBeforeInsert(person, NOTIFICATION_EVENTS);
    const door = doorOn(erased.mongo);
    const replies = await Promise.all(
      [person, ...others].map((userId) => {
        const event = { sourceService: 's', sourceEventId: newId(), type: 'T', targetUserIds: [userId], payload: {} };
        const body = { ...event, notifications: [{ ...text, userId }] };
        return receiveEvent(door.deps, { body, params: {}, identity: { sender: 's' } } as never);
      }),
    );
    t.equal(erased.times(), 1, 'one command inserts the events of all');
    const data = { created: 0, suppressed: [{ userId: person, reason: 'ERASED' }], event: { targetUserIds: [] } };
    t.match(replies, [{ data }, { data: { created: 1 } }, { data: { created: 1 } }]);
    t.strictSame(door.woken.sort(), others.sort(), 'the stream of the person is not woken');
    await nothingNames(person);
    for (const userId of others) t.equal(await notifications(mongo).countDocuments({ userId }), 1);
  },
);

t.test('a repeated event erases what a killed process has stored of a person whom an erasure overtook', async (t) => {
  const person = `person-${newId()}`;
  const erased = erasedBeforeInsert(person, NOTIFICATION_EVENTS);
  // The first process ends after its commit, before it reads the tombstones again.
  const db = tappedDb(erased.mongo, (_method, name, searched) => {
    if (name !== 'find' || searched !== ERASED_PERSONS || erased.times() === 0) return undefined;
    return () => {
      throw new Error('killed');
    };
  });
  const event = { sourceService: 's', sourceEventId: newId(), type: 'T', targetUserIds: [person], payload: {} };
  const call = {
    body: { notifications: [{ ...text, userId: person }], ...event },
    params: {},
    identity: { sender: 's' },
  };
  await t.rejects(receiveEvent(doorOn({ ...erased.mongo, db }).deps, call as never), /killed/);
  t.ok((await countRows(mongo, { id: person, emailDigest: null })).size > 0, 'rows name the person');
  await receiveEvent(doorOn(mongo).deps, call as never);
  await nothingNames(person);
});

t.test('a staged batch leaves nothing of a person whom an erasure overtakes', async (t) => {
  const person = `person-${newId()}`;
  const others = Array.from({ length: MAX_AT_ONCE }, (_, n) => `user-${n}`);
  const rows = [...others, person].map((userId) => ({ ...text, userId }));
  const reply = await race(person, NOTIFICATIONS, createBatch as Intake, { notifications: rows });
  t.match(reply, { status: 201, data: { created: MAX_AT_ONCE } });
});

t.test('an alert of a user whom an erasure overtakes keeps neither the user nor the count of calls', async (t) => {
  const person = `person-${newId()}`;
  const source = { sourceService: 'bff-service', sourceEventId: newId() };
  const body = { ...source, studentId: 'student-1', topic: 'Đạo hàm', parentIds: ['parent-1'] };
  t.match(await race(person, NOTIFICATIONS, raiseWeakTopic as Intake, body), { status: 201 });
});

t.test('a snapshot or a reported delivery attempt of a user whom an erasure overtakes is refused', async (t) => {
  const snapshot = { ...text, isRead: true, createdAt: '2026-01-01T00:00:00.000Z' };
  const attempt = { notificationId: 'n-1', channel: 'sms', provider: 'p', status: 'SENT', metadata: { to: '+84' } };
  const subjects = [
    { intake: storeSnapshot, collection: NOTIFICATIONS, body: snapshot },
    { intake: recordDeliveryAttempt, collection: DELIVERY_ATTEMPTS, body: attempt },
  ];
  for (const { intake, collection, body } of subjects) {
    const userId = `person-${newId()}`;
    t.match(await race(userId, collection, intake as Intake, { ...body, userId }), { rejected: 'PERSON_ERASED' });
  }
  const about = `person-${newId()}`;
  const aboutErased = { ...snapshot, userId: 'student-1', entityId: about };
  t.match(await race(about, NOTIFICATIONS, storeSnapshot as Intake, aboutErased), { rejected: 'PERSON_ERASED' });
  const actorId = `person-${newId()}`;
  const reply = await race(actorId, NOTIFICATIONS, storeSnapshot as Intake, {
    ...snapshot,
    userId: 'student-1',
    actorId,
  });
  t.match(reply, { status: 201, data: { notification: { actorId: null } } });
});

t.test('preferences of a user whom an erasure overtakes are not stored', async (t) => {
  const person = `person-${newId()}`;
  const body = { enabledTypes: { GRADE_RELEASED: false } };
  t.match(await race(person, 'notification_preferences', changePreferences as Intake, body), { status: 200 });
});
