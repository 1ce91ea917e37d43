import t, { type Test } from 'tap';
import { openStreams } from '#api/http/live-stream.ts';
import type { Call, Reply } from '#api/route.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { DAY, HOUR } from '#shared/kernel/time.ts';
import { captureLog } from '#testing/captured-log.ts';
import { openStream } from '#testing/clients/open-stream.ts';
import { openTestDoor } from '#testing/doors/test-door.ts';
import { freshNotification, storeNotifications } from '#testing/stored/stored-notifications.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { until } from '#testing/until.ts';
import type { NotificationDeps } from './deps.ts';
import { deleteEverything, deleteOneNotification, markEverythingRead, markOneRead } from './inbox.ts';
import { storeSnapshot } from './intake.ts';
import { notificationRoutes } from './mount.ts';

const MAX_AGE_MS = 100;

/** Opens a front door with inboxes only, in this process. Its streams end soon, and the test sets its clock. */
async function openInboxDoor(t: Test) {
  const mongo = await openTestMongo(t);
  const draining = new AbortController();
  const clock = { aheadMs: 0, now: () => Date.now() + clock.aheadMs };
  const deps = {
    mongo,
    now: clock.now,
    senderTokens: {},
    inboxChanges: { listen: () => () => undefined, isConnected: () => true },
    streams: { ...openStreams(draining.signal), maxAgeMs: MAX_AGE_MS },
    log: captureLog(),
  } as unknown as NotificationDeps;
  const { port } = await openTestDoor(t, { routes: notificationRoutes(deps), schemas: 'product', draining });
  const follow = (after?: string) =>
    openStream(t, `http://127.0.0.1:${port}/v1/notifications/stream`, {
      'x-actor-id': 'student-1',
      ...(after === undefined ? {} : { 'last-event-id': after }),
    });
  const store = async (title: string) => {
    const change = freshNotification({ title, createdAt: new Date(clock.now()) });
    await storeNotifications(mongo, 1, () => change);
  };
  return { clock, follow, store };
}

t.test('a stream ends at its maximum age, and its client resumes it without a gap or a repeat', async (t) => {
  const { follow, store } = await openInboxDoor(t);
  await store('before');
  let after: string | undefined;
  const titles: unknown[] = [];
  for (const title of ['first gap', 'second gap', 'third gap']) {
    const stream = await follow(after);
    await stream.next('snapshot');
    await until('the stream ended', () => stream.ended());
    t.match(stream.text(), /\n\n$/, 'after a whole event');
    for (const { event, data, lastEventId } of stream.events) {
      if (event === 'notification') titles.push((data.notification as { title: string }).title);
      after = lastEventId;
    }
    await store(title);
  }
  const last = await follow(after);
  t.match(await last.next('snapshot'), { data: { unreadCount: 4 } });
  t.match(await last.next('notification'), { data: { notification: { title: 'third gap' } } });
  t.strictSame(titles, ['first gap', 'second gap']);
});

t.test('the id of a quiet inbox does not expire while its stream is resumed', async (t) => {
  const { clock, follow, store } = await openInboxDoor(t);
  let after: string | undefined;
  for (let hours = 0; hours <= 30; hours += 10) {
    clock.aheadMs = hours * HOUR;
    const stream = await follow(after);
    after = (await stream.next('snapshot')).lastEventId;
    await until('the stream ended', () => stream.ended());
  }
  t.ok(clock.aheadMs > DAY, 'a first id would be too old by now');
  await store('in the gap');
  const stream = await follow(after);
  t.match(await stream.next('notification'), { data: { notification: { title: 'in the gap' } } });
});

const SNAPSHOT = {
  userId: 'student-1',
  type: 'T',
  title: 'T',
  content: '',
  isRead: false,
  createdAt: '2026-01-01T00:00:00.000Z',
};

t.test('every change of an inbox wakes its owner’s streams, after the commit', async (t) => {
  const mongo = await openTestMongo(t);
  const [row] = await storeNotifications(mongo, 2);
  const woken: string[] = [];
  const notifyStreams = (userIds: readonly string[]) => void woken.push(...userIds);
  const deps = { mongo, now: Date.now, notifyStreams } as unknown as NotificationDeps;
  const call = {
    params: { notificationId: row?._id ?? '' },
    body: SNAPSHOT,
    signal: new AbortController().signal,
    identity: { actor: { id: 'student-1', role: 'STUDENT' } },
  } as unknown as Call<never>;
  const asAdmin = { ...call, identity: { actor: { id: 'admin-1', role: 'ADMIN' } } };
  const wakes = async (what: string, reply: Promise<Reply | Rejection>, ...users: string[]) => {
    t.match(await reply, users.length > 0 ? { status: 200 } : { rejected: /./ }, what);
    t.strictSame(woken.splice(0), users, what);
  };
  await wakes('read', markOneRead(deps, asAdmin, 'role'), 'student-1');
  await wakes('read by a stranger', markOneRead(deps, asAdmin, 'own'));
  await wakes('read-all', markEverythingRead(deps, call), 'student-1');
  await wakes('snapshot', storeSnapshot(deps, call), 'student-1');
  const foreign = { ...call, body: { ...SNAPSHOT, userId: 'thief' } } as unknown as Call<never>;
  await wakes('snapshot of another’s', storeSnapshot(deps, foreign));
  await wakes('delete', deleteOneNotification(deps, asAdmin), 'student-1');
  await wakes('deleted already', deleteOneNotification(deps, asAdmin));
  await wakes('delete-all', deleteEverything(deps, call), 'student-1');
});
