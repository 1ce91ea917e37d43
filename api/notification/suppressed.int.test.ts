import t, { type Test } from 'tap';
import type { Reply } from '#api/route.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { notificationEvents, notificationSuppressions } from '#infra/mongo/notification/collections.ts';
import { patchPreferences } from '#infra/mongo/notification/preferences.ts';
import { summarizeSupport } from '#infra/mongo/notification/summarize-support.ts';
import { expireSuppressions } from '#infra/mongo/notification/suppressions.ts';
import { erasePerson } from '#infra/mongo/person/erase.ts';
import { newId } from '#shared/kernel/ids.ts';
import { MAX_SUPPRESSED } from '#shared/notification/event.ts';
import { callExamhall } from '#testing/processes/run-examhall.ts';
import { openTestMongo, requiredEnv } from '#testing/stores/open-test-mongo.ts';
import { tappedDb } from '#testing/stores/tapped-db.ts';
import type { NotificationDeps } from './deps.ts';
import { createBatch, createOneNotification } from './intake.ts';

const mongo = await openTestMongo(t);
const REDIS_URL = requiredEnv('REDIS_URL');
const text = { type: 'SUPPORT_TICKET', title: 'Tiêu đề', content: 'Nội dung' };

function doorOn(on: Mongo): NotificationDeps {
  return {
    mongo: on,
    now: Date.now,
    channels: new Set(),
    deliveryAttempts: 3,
    commandAttempts: 3,
    audit: null,
    background: { run: () => undefined },
    doorbells: { ring: async () => true },
    notifyStreams: () => undefined,
  } as unknown as NotificationDeps;
}

/** Sends a request. Returns its reply and its id. */
async function send(intake: typeof createOneNotification | typeof createBatch, body: object, on = mongo) {
  const requestId = `request-${newId()}`;
  const reply = await intake(doorOn(on), { body, params: {}, identity: { sender: 's' }, requestId } as never);
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
