import type { Db } from 'mongodb';
import { attempts, eventRows, regradeLines, seats, textRows } from '#infra/mongo/attempt/collections.ts';
import { securityEvents } from '#infra/mongo/auth/collections.ts';
import { learnPair, pairOf } from '#infra/mongo/auth/known-pairs.ts';
import { recordFailure, throttleKey } from '#infra/mongo/auth/throttle.ts';
import { aiJobs, generations, usageEvents } from '#infra/mongo/classifier/collections.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { erasedPersons, tombstoneId } from '#infra/mongo/erased-persons.ts';
import { countAlertCall } from '#infra/mongo/notification/alert-calls.ts';
import {
  deliveryAttempts,
  notificationEvents,
  notifications,
  preferences,
  snapshotIds,
} from '#infra/mongo/notification/collections.ts';
import { insertNotification } from '#infra/mongo/notification/inbox-changes.ts';
import { patchPreferences } from '#infra/mongo/notification/preferences.ts';
import { storeSubscription } from '#infra/mongo/notification/push-subscriptions.ts';
import { storeSuppressed } from '#infra/mongo/notification/suppressions.ts';
import { erasePerson } from '#infra/mongo/person/erase.ts';
import type { Declaration } from '#infra/mongo/schema/personal-fields/rules.ts';
import { PERSONAL_FIELDS } from '#infra/mongo/schema/personal-fields.ts';
import { noticeOrder } from '#shared/attempt/commands.ts';
import { attemptEvent } from '#shared/attempt/events.ts';
import { gradeNotices } from '#shared/attempt/notices.ts';
import { accountNoticeOrder } from '#shared/auth/notices.ts';
import { newId } from '#shared/kernel/ids.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { deliveryOrder } from '#shared/notification/commands.ts';
import { recordedAttempt } from '#shared/notification/delivery.ts';
import { type EventInput, newEvent } from '#shared/notification/event.ts';
import type { Suppression } from '#shared/notification/preferences.ts';
import { storeSignedIn } from './stored-accounts.ts';
import { graded, postExtraTime, postHandoff, postOrder, postRelease, storeAttempt } from './stored-attempts.ts';
import { postJob, postSettlement } from './stored-model-work.ts';
import { freshNotification, testBrowser } from './stored-notifications.ts';

/** Words that appear in the personal content of the person's rows. */
export const MARKER = 'Trần-Thị-Dấu-Vết';

/** Stores one person with rows behind every link of the register of personal data. Returns the ids. */
export async function storePerson(mongo: Mongo) {
  const { account } = await storeSignedIn(mongo, { fullName: MARKER, phone: `+849${`${Math.random()}`.slice(2, 10)}` });
  const id = account._id;
  const now = Date.now();
  await recordFailure(mongo, throttleKey(account.email));
  await learnPair(mongo, pairOf(account.email, '203.0.113.7'), now);
  const event = { accountId: id, sessionId: null, type: 'PASSWORD_SET', metadata: { ended: 1 } } as const;
  await securityEvents(mongo).insertOne({ _id: newId(now), ...event, at: new Date(now) });
  const notice = { eventId: newId(now), accountId: id, event: 'PASSWORD_SET', at: new Date(now) } as const;
  await postOrder(mongo, accountNoticeOrder(notice));
  const attemptId = await storeSitting(mongo, id);
  await postRelease(mongo, { examId: `exam-${newId()}`, studentIds: ['student-2', id] });
  await postExtraTime(mongo, { examId: `exam-${newId()}`, studentIds: ['student-2', id] });
  await storeInbox(mongo, id, attemptId);
  await storeModelWork(mongo, id);
  return { id, email: account.email, attemptId };
}

/** Returns `collection.field` of each stored field that the register of personal data lacks. */
export async function undeclaredFields(db: Db): Promise<string[]> {
  const declared: Readonly<Record<string, Declaration>> = PERSONAL_FIELDS;
  const found = new Set<string>();
  for (const { name } of await db.listCollections().toArray()) {
    for await (const row of db.collection(name).find({})) {
      for (const field of Object.keys(row))
        if (declared[name]?.fields[field] === undefined) found.add(`${name}.${field}`);
    }
  }
  return [...found].sort();
}

async function storeSitting(mongo: Mongo, studentId: string): Promise<string> {
  const studentInfo = JSON.stringify({ name: MARKER });
  const events = [attemptEvent(2, 'QUESTION_VIEW', { name: MARKER }, new Date())];
  const courseContext = {
    courseId: 'course-1',
    courseQuizReferenceId: 'quiz-1',
    lessonId: 'lesson-1',
    studentId,
    organizationId: 'org-1',
    validatedBy: 'course-service',
    validatedAt: new Date(),
  } as const;
  const sitting = { studentId, studentInfo, courseContext, events, eventSeq: 2 };
  const attempt = await storeAttempt(mongo, { ...graded(), ...sitting });
  const attemptId = attempt._id;
  await attempts(mongo).updateOne({ _id: attemptId }, { $set: { 'answers.q1.text': MARKER } });
  await textRows(mongo).insertOne({ _id: `${attemptId}:q1:1`, attemptId, answerKey: 'q1', text: MARKER });
  const metadata = JSON.stringify({ name: MARKER });
  const row = { _id: `${attemptId}:1`, attemptId, seq: 1, type: 'START', metadata, createdAt: new Date() } as const;
  await eventRows(mongo).insertOne(row);
  const linkId = `link-${attemptId}`;
  const seat = { linkId, studentId, seat: 0, numbered: true, takenAt: new Date() };
  await seats(mongo).insertOne({ _id: JSON.stringify([linkId, studentId]), ...seat });
  await postHandoff(mongo, attempt, { feedback: MARKER });
  const regradeId = newId();
  const line = { _id: `${regradeId}:${attemptId}`, regradeId, attemptId, studentId, studentInfo, examiners: [] };
  const scores = { before: { totalScore: 1, maxScore: 3 }, after: { totalScore: 0, maxScore: 3 }, questions: [] };
  await regradeLines(mongo).insertOne({ ...line, ...scores, expiresAt: new Date(Date.now() + HOUR) });
  for (const notice of gradeNotices(attempt)) {
    const order = noticeOrder(notice);
    await postOrder(mongo, { ...order, id: order.key });
  }
  return attemptId;
}

async function storeInbox(mongo: Mongo, userId: string, attemptId: string): Promise<void> {
  const facts = () => ({ id: newId(), now: new Date(), created: 1, organizationId: null });
  const own = freshNotification({ userId, content: MARKER });
  const about = freshNotification({ userId: 'parent-1', entity: 'Student', entityId: userId, content: MARKER });
  const ofGrade = freshNotification({ userId: 'parent-1', entity: 'ExamAttempt', entityId: attemptId });
  const byPerson = freshNotification({ userId: 'teacher-1', actorId: userId });
  await notifications(mongo).insertMany([own, about, ofGrade, byPerson]);
  await snapshotIds(mongo).insertOne({ _id: own._id });
  const event = (input: Partial<EventInput>, more: object = {}) =>
    newEvent({ sourceService: 's', sourceEventId: newId(), ...input }, { ...facts(), ...more });
  await notificationEvents(mongo).insertMany([
    event({ entityId: userId, payload: { name: MARKER } }),
    event({ entityId: attemptId, targetUserIds: ['parent-1'] }),
    event({ targetUserIds: [userId, 'student-2'] }),
    event({ targetUserIds: [userId], payload: { name: MARKER } }),
    event({ actorId: userId }, { keyedByActor: true }),
    event({}, { suppressed: [muted(userId), muted('student-2')] }),
  ]);
  for (const { _id: notificationId, userId: to } of [own, about]) {
    const order = deliveryOrder({ notificationId, userId: to, channel: 'log' });
    await postOrder(mongo, { ...order, id: order.key });
    const sent = { notificationId, userId: to, channel: 'log', provider: 'log', status: 'SENT' } as const;
    await deliveryAttempts(mongo).insertOne({ ...recordedAttempt(sent, facts()), isSupport: false });
  }
  await patchPreferences(mongo, userId, { enabledTypes: { GRADE_RELEASED: true }, mutedUntil: null });
  await storeSuppressed(mongo, [{ ...muted(userId), type: 'T' }], { requestId: newId(), now: Date.now() });
  await storeSubscription(mongo, userId, testBrowser().subscription);
  await countAlertCall(mongo, userId, { limit: 5, now: Date.now() });
}

function muted(userId: string): Suppression {
  return { userId, reason: 'MUTED' };
}

async function storeModelWork(mongo: Mongo, actorId: string): Promise<void> {
  const job = await postJob(mongo, { questions: 1, request: { actorId } });
  const closed = { status: 'COMPLETED', open: false, finishedAt: new Date() } as const;
  await aiJobs(mongo).updateOne({ _id: job.subject }, { $set: closed });
  const settlement = await postSettlement(mongo);
  const settled = { 'actor.id': actorId, state: 'SETTLED', settledAt: new Date() } as const;
  await generations(mongo).updateOne({ _id: settlement.subject }, { $set: settled });
  await usageEvents(mongo).insertOne({
    _id: newId(),
    operation: 'essay-grade',
    organizationId: 'org-1',
    actorId,
    requestId: newId(),
    jobId: null,
    batchIndex: null,
    inputTokens: 1,
    outputTokens: 1,
    provider: 'mock',
    baseUrl: null,
    model: 'mock-1',
    latencyMs: 1,
    attempt: 1,
    retryWaitMs: 0,
    circuit: 'closed',
    httpStatus: 200,
    outcome: 'success',
    errorCode: null,
    providerRequestId: null,
    promptVersion: '1',
    createdAt: new Date(),
  });
}

/** Erases a person who has no rows, stores rows as a front door does that is killed before it reads the tombstones again, and returns the id. */
export async function storeErasedMeanwhile(mongo: Mongo): Promise<string> {
  const id = `person-${newId()}`;
  await erasePerson(mongo, id, { operator: 'an', reason: 'request by letter', now: Date.now() });
  const now = Date.now();
  const deliveries = { channels: new Set(['log'] as const), maxAttempts: 3 };
  await insertNotification(mongo, freshNotification({ userId: id }), { deliveries, now });
  await insertNotification(mongo, freshNotification({ userId: 'parent-1', entityId: id }), { deliveries, now });
  await preferences(mongo).insertOne({ _id: id, enabledTypes: {}, mutedUntil: null, updatedAt: new Date(now) });
  return id;
}

/** Makes the second pass of a person's erasure due. */
export async function makePassDue(mongo: Mongo, id: string): Promise<void> {
  const at = new Date(Date.now() - 60_000);
  await erasedPersons(mongo).updateOne(
    { _id: await tombstoneId(mongo, id), again: { $exists: true } },
    { $set: { 'again.at': at } },
  );
}
