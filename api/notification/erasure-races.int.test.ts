import t from 'tap';
import type { Reply } from '#api/route.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { ERASED_PERSONS } from '#infra/mongo/erased-persons.ts';
import { COMMANDS, DELIVERIES } from '#infra/mongo/mailbox/commands.ts';
import {
  ALERT_CALLS,
  DELIVERY_ATTEMPTS,
  NOTIFICATION_EVENTS,
  NOTIFICATIONS,
  notifications,
  SNAPSHOT_IDS,
} from '#infra/mongo/notification/collections.ts';
import { erasePerson } from '#infra/mongo/person/erase.ts';
import { countRows } from '#infra/mongo/person/find.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { newId } from '#shared/kernel/ids.ts';
import { MAX_AT_ONCE } from '#shared/notification/fan-out.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { tappedDb } from '#testing/stores/tapped-db.ts';
import { recordDeliveryAttempt } from './deliveries.ts';
import type { NotificationDeps } from './deps.ts';
import { changePreferences } from './inbox.ts';
import { createBatch, createOneNotification, raiseWeakTopic, receiveEvent, storeSnapshot } from './intake.ts';

const mongo = await openTestMongo(t);
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

/** A front door, and the users whose streams it has woken. */
function doorOn(on: Mongo) {
  const woken: string[] = [];
  const deps = {
    mongo: on,
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

const text = { type: 'T', title: 'Trần', content: 'Nội dung' };

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
