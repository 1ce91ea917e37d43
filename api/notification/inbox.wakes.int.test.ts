import t from 'tap';
import type { Call, Reply } from '#api/route.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { storeNotifications } from '#testing/stored/stored-notifications.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import type { NotificationDeps } from './deps.ts';
import { deleteEverything, deleteOneNotification, markEverythingRead, markOneRead } from './inbox.ts';
import { storeSnapshot } from './intake.ts';

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
