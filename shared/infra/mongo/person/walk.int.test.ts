import t from 'tap';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { COMMANDS, DELIVERIES, NOTICES } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { deliveryAttempts, notifications, snapshotIds } from '#infra/mongo/notification/collections.ts';
import { insertDeliveryAttempt } from '#infra/mongo/notification/delivery-attempts.ts';
import { putSnapshot } from '#infra/mongo/notification/snapshots.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import type { Command } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';
import { DAY } from '#shared/kernel/time.ts';
import { recordedAttempt } from '#shared/notification/delivery.ts';
import { newFromSnapshot } from '#shared/notification/snapshot.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { dyingProcess } from '#testing/processes/dying-process.ts';
import { graded, postHandoff, postRelease, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { postDelivery, storeNotifications } from '#testing/stored/stored-notifications.ts';
import { afterSearch } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { runCommand } from '#workers/run-command.ts';
import { erasePerson } from './erase.ts';
import { expireAttempts, expireNotifications } from './retention.ts';

const mongo = await openTestMongo(t);
const notices = mongo.db.collection(NOTICES);
const remarks = { feedback: 'Lan viết rõ ràng.' };

/** Stores a graded attempt of an exam whose results are not released. */
function storeUnreleased(change: Partial<Attempt> = {}) {
  return storeAttempt(mongo, { ...graded({ showResultMode: 'MANUAL' }), examId: `exam-${newId()}`, ...change });
}

const run = (command: Command, actor: string) =>
  runCommand(testKernel(mongo), makeActor(actor, testWorkerDeps(mongo)), command);

async function handoffOf({ _id }: Attempt) {
  return mailboxOf(mongo, 'essayhandoff').findOne({ subject: _id, queue: 'essayhandoff' });
}

// Arrivals while an attempt or a notification expires. These tests run first, because the attempts of the others are old enough too.

const old = new Date(Date.now() - 40 * DAY);
const expiry = () => ({ before: new Date(Date.now() - 30 * DAY), now: new Date(), limit: 100 });

/** Expires all old attempts. `meanwhile` runs once the commands of the first one were searched, and before it is rewritten. */
async function expireDuring(meanwhile: () => Promise<unknown>) {
  const searched = afterSearch(mongo, COMMANDS, (filter) => '$or' in filter, meanwhile);
  const { finished } = await expireAttempts(searched.mongo, expiry(), null);
  t.equal(searched.times(), 1);
  return finished;
}

t.test('a handoff that is applied while its attempt expires keeps neither the student nor the remarks', async (t) => {
  const attempt = await storeUnreleased({ submittedAt: old });
  const finished = await expireDuring(async () => {
    t.equal(await run(await postHandoff(mongo, attempt, remarks), 'essayhandoff'), 'done');
  });
  t.equal(finished, 1);
  const command = await handoffOf(attempt);
  t.match(command, { status: 'DONE', body: { handoff: { score: 1.5 } } });
  t.notMatch(JSON.stringify(command), new RegExp(`${attempt.studentId}|${remarks.feedback}`));
  t.match(await attempts(mongo).findOne({ _id: attempt._id }), { totalScore: 2.5, studentId: /^erased-/ });
});

t.test('an attempt waits for a notice that a release adds while it expires, and a worker sends', async (t) => {
  const attempt = await storeUnreleased({ submittedAt: old });
  const finished = await expireDuring(async () => {
    t.equal(await run(await postRelease(mongo, { examId: attempt.examId }), 'resultsrelease'), 'done');
    await notices.updateMany({ subject: attempt._id }, { $set: { lockedUntil: new Date(Date.now() + DAY) } });
  });
  t.equal(finished, 0);
  t.match(await attempts(mongo).findOne({ _id: attempt._id }), { studentId: attempt.studentId });
  t.equal(await notices.countDocuments({ subject: attempt._id }), 2);
  await notices.updateMany({ subject: attempt._id }, { $set: { lockedUntil: null } });
  t.match(await expireAttempts(mongo, expiry(), null), { finished: 1 });
  t.equal(await notices.countDocuments({ subject: attempt._id }), 0);
});

t.test('a notification about an attempt that arrives while it expires ends with its deliveries', async (t) => {
  const attempt = await storeUnreleased({ submittedAt: old });
  const notification = { entity: 'ExamAttempt', entityId: attempt._id };
  const finished = await expireDuring(() => postDelivery(mongo, { notification }));
  t.equal(finished, 1);
  t.equal(await notifications(mongo).countDocuments({ entityId: attempt._id }), 0);
  t.equal(await mongo.db.collection(DELIVERIES).countDocuments(), 0);
});

t.test('a delivery attempt that is reported while its notification expires ends with it', async (t) => {
  const [row] = await storeNotifications(mongo, 1, () => ({ createdAt: old }));
  if (row === undefined) throw new Error('no notification was stored');
  const { _id: notificationId, userId } = row;
  const sent = { notificationId, userId, channel: 'sms', provider: 'p', status: 'SENT' } as const;
  const report = recordedAttempt(sent, { id: newId(), now: new Date(), organizationId: null });
  const { collectionName } = deliveryAttempts(mongo);
  const searched = afterSearch(
    mongo,
    collectionName,
    () => true,
    () => insertDeliveryAttempt(mongo, report),
  );
  t.equal(await expireNotifications(searched.mongo, expiry()), 1);
  t.equal(searched.times(), 1);
  t.equal(await notifications(mongo).countDocuments({ _id: notificationId }), 0);
  t.equal(await deliveryAttempts(mongo).countDocuments({ notificationId }), 0);
});

const snapshotOf = (id: string, createdAt: Date) => ({
  id,
  userId: `user-${id}`,
  organizationId: null,
  type: 'OTHER',
  title: 'T',
  content: 'C',
  isRead: true,
  readAt: null,
  deletedAt: null,
  createdAt,
});

const put = (id: string, createdAt: Date) =>
  putSnapshot(mongo, snapshotOf(id, createdAt), (first) =>
    newFromSnapshot(first, { now: new Date(), organizationId: null }),
  );

t.test(
  'a process that dies at any write leaves no snapshot id without its notification, and none without its id',
  async (t) => {
    for (let point = 1, isFinished = false; !isFinished; point++) {
      for (const when of ['before', 'after'] as const) {
        const id = `legacy-${point}-${when}`;
        await put(id, old);
        const broken = dyingProcess(mongo, point, when);
        await expireNotifications(broken.mongo, expiry()).catch(() => undefined);
        isFinished = broken.diedAt() === null;
        const rows = await notifications(mongo).countDocuments({ _id: id });
        t.equal(await snapshotIds(mongo).countDocuments({ _id: id }), rows, `dies ${broken.diedAt()}`);
        await expireNotifications(mongo, expiry());
        t.match(await put(id, new Date()), { kind: 'created' }, 'the id is free again');
      }
    }
  },
);

t.test('a notification that a snapshot renews while it expires stays, with its id', async (t) => {
  await put('renewed', old);
  const { collectionName } = deliveryAttempts(mongo);
  const searched = afterSearch(
    mongo,
    collectionName,
    () => true,
    () => put('renewed', new Date()),
  );
  await expireNotifications(searched.mongo, expiry());
  t.equal(searched.times(), 1);
  t.equal(await notifications(mongo).countDocuments({ _id: 'renewed' }), 1);
  t.equal(await snapshotIds(mongo).countDocuments({ _id: 'renewed' }), 1);
});

// Arrivals while a student is erased.

const act = () => ({ operator: 'an', reason: 'a test', now: Date.now() });

/** Erases the student. `meanwhile` runs once the commands of the attempt were searched, and before the attempt is rewritten. */
async function eraseDuring({ studentId }: Attempt, meanwhile: () => Promise<unknown>) {
  const searched = afterSearch(mongo, COMMANDS, (filter) => '$or' in filter, meanwhile);
  const { kind } = await erasePerson(searched.mongo, studentId, act());
  return { kind, times: searched.times() };
}

t.test('a handoff that is applied during the erasure keeps neither the student nor the remarks', async (t) => {
  const attempt = await storeAttempt(mongo, graded());
  const erased = await eraseDuring(attempt, async () => {
    t.equal(await run(await postHandoff(mongo, attempt, remarks), 'essayhandoff'), 'done');
  });
  t.strictSame(erased, { kind: 'erased', times: 1 });
  const command = await handoffOf(attempt);
  t.match(command, { status: 'DONE', body: { attemptId: attempt._id, handoff: { score: 1.5 } } });
  t.notMatch(JSON.stringify(command), new RegExp(`${attempt.studentId}|${remarks.feedback}`));
  t.match(await attempts(mongo).findOne({ _id: attempt._id }), { totalScore: 2.5, studentId: /^erased-/ });
});

t.test('a handoff that arrives after the erasure under the old student keeps neither of them', async (t) => {
  const attempt = await storeAttempt(mongo, graded());
  t.equal((await erasePerson(mongo, attempt.studentId, act())).kind, 'erased');
  t.equal(await run(await postHandoff(mongo, attempt, remarks), 'essayhandoff'), 'rejected');
  const command = await handoffOf(attempt);
  t.match(command, { status: 'REJECTED', result: { rejected: 'ATTEMPT_NOT_FOUND' } });
  t.notMatch(JSON.stringify(command), new RegExp(`${attempt.studentId}|${remarks.feedback}`));
});

t.test('the notices of a release during the erasure are erased with the attempt', async (t) => {
  const attempt = await storeUnreleased();
  const erased = await eraseDuring(attempt, async () => {
    t.equal(await run(await postRelease(mongo, { examId: attempt.examId }), 'resultsrelease'), 'done');
    t.equal(await notices.countDocuments({ subject: attempt._id }), 2);
  });
  t.strictSame(erased, { kind: 'erased', times: 1 });
  t.equal(await notices.countDocuments({ subject: attempt._id }), 0);
});

t.test('an attempt waits for a notice of such a release that a worker is sending', async (t) => {
  const attempt = await storeUnreleased();
  const lockedUntil = new Date(Date.now() + 60_000);
  const erased = await eraseDuring(attempt, async () => {
    await run(await postRelease(mongo, { examId: attempt.examId }), 'resultsrelease');
    await notices.updateMany({ subject: attempt._id }, { $set: { lockedUntil } });
  });
  t.strictSame(erased, { kind: 'waiting', times: 1 });
  t.match(await attempts(mongo).findOne({ _id: attempt._id }), { studentId: attempt.studentId });
  await notices.updateMany({ subject: attempt._id }, { $set: { lockedUntil: null } });
  t.equal((await erasePerson(mongo, attempt.studentId, act())).kind, 'erased');
  t.equal(await notices.countDocuments({ subject: attempt._id }), 0);
});
