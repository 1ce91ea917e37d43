import t from 'tap';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { COMMANDS } from '#infra/mongo/mailbox/commands.ts';
import { insertFanOut } from '#infra/mongo/notification/fan-out.ts';
import { storeSuppressed } from '#infra/mongo/notification/suppressions.ts';
import { operatorAudit } from '#infra/mongo/operator-audit.ts';
import { createIndexes } from '#infra/mongo/schema/migrate.ts';
import type { Command } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';
import { newEvent } from '#shared/notification/event.ts';
import { sampleFanOut } from '#testing/stored/sample-fan-out.ts';
import { storeSignedIn } from '#testing/stored/stored-accounts.ts';
import {
  freshAttempt,
  postGrading,
  postHandoff,
  postRelease,
  SUBMITTED,
  storeAttempt,
} from '#testing/stored/stored-attempts.ts';
import { postDelivery } from '#testing/stored/stored-deliveries.ts';
import { postSettlement } from '#testing/stored/stored-generations.ts';
import { postJob } from '#testing/stored/stored-jobs.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { isStandInInPython, noneScans, planOf, watchFilters } from '#testing/stores/plans.ts';
import { readAuditPage } from './audit-pages.ts';
import { auditExamAttempts, auditTrace } from './audited-reads.ts';
import { readExam } from './exam.ts';
import { readExamAttempts } from './exam-attempts.ts';
import { type Asked, readTrace } from './trace.ts';

const ROWS = 20;

t.test('no page of the audit scans or sorts it', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  const { seen } = watchFilters(mongo);
  await createIndexes(mongo);
  const rows = Array.from({ length: ROWS }, (_, n) => ({
    _id: `row-${String(n).padStart(2, '0')}`,
    operator: 'an',
    action: 'account.unlock' as const,
    subject: 'account-1',
    reason: 'the owner called',
    at: new Date(1_000 * Math.floor(n / 3)),
    detail: {},
  }));
  await operatorAudit(mongo).insertMany(rows as never);
  seen.clear();
  const filters = [{}, { operator: 'an' }, { action: 'account.unlock' }, { subject: 'account-1' }];
  for (const filter of filters) {
    const walked: string[] = [];
    let cursor: string | null = null;
    do {
      const page = await readAuditPage(mongo, filter, cursor, 4);
      walked.push(...(page?.rows.map(({ _id }) => _id) ?? []));
      cursor = page?.nextCursor ?? null;
    } while (cursor !== null);
    t.strictSame(walked, rows.map(({ _id }) => _id).reverse(), 'each row once, the newest first');
  }
  await noneScans(t, mongo, seen, 2 * filters.length);
  if (await isStandInInPython(mongo)) return;
  for (const filter of seen.values()) {
    const stages = (await planOf(mongo, filter)).join(' < ');
    t.match(stages, `IXSCAN ${filter.explainable.hint}`);
    t.notMatch(stages, /SORT/, 'a page is sorted by its index');
  }
});

t.test('no query of an exam scans a collection', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  const { seen } = watchFilters(mongo);
  await createIndexes(mongo);
  // A planner may scan a collection that is almost empty.
  await attempts(mongo).insertMany(Array.from({ length: 20 }, () => freshAttempt()));
  const attempt = await storeAttempt(mongo, { ...SUBMITTED, examId: 'exam-of-plans' });
  await postGrading(mongo, attempt);
  await postRelease(mongo, { examId: attempt.examId });
  seen.clear();
  const now = Date.now();
  const facts = { now, redis: 'up' } as const;
  for (const examId of [attempt.examId, 'unknown']) {
    await readExam(mongo, examId, now);
    for (const status of [null, 'SUBMITTED'] as const) {
      for (const student of [null, attempt.studentId]) {
        for (const after of [null, '0'])
          await readExamAttempts(mongo, { examId, status, student, after, limit: 2 }, facts);
      }
    }
  }
  await auditExamAttempts(mongo, { operator: 'an', now }, { examId: attempt.examId, student: null }, 1);
  await noneScans(t, mongo, seen, 16);
  if (await isStandInInPython(mongo)) return;
  for (const filter of seen.values()) {
    const { pipeline, hint, limit } = filter.explainable;
    if (filter.collection !== 'attempts') continue;
    const stages = (await planOf(mongo, filter)).join(' < ');
    t.match(stages, `IXSCAN ${hint}`);
    if (pipeline !== undefined) t.notMatch(stages, /FETCH/, 'counts are answered from the index alone');
    else if (limit > 1 && hint !== 'attempt_number_of_student')
      t.notMatch(stages, /SORT/, 'a page is sorted by its index');
  }
});

t.test('no query of a trace scans a collection', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  const { seen } = watchFilters(mongo);
  await createIndexes(mongo);
  // A planner may scan a collection that is almost empty.
  for (let n = 0; n < 20; n++) {
    await storeAttempt(mongo, SUBMITTED);
    await storeSignedIn(mongo);
  }
  const wanted = await plantAll(mongo);
  seen.clear();
  for (const asked of wanted) {
    const trace = await readTrace(mongo, asked, { now: Date.now(), redis: 'up' });
    t.equal(trace === null, asked.value === 'unknown', `${asked.by} ${asked.value}`);
    if (trace !== null) await auditTrace(mongo, { operator: 'an', now: Date.now() }, asked, trace);
  }
  await noneScans(t, mongo, seen, 35);
});

/** Stores an object of every kind. Returns the traces that find them, and those of unknown ids. */
async function plantAll(mongo: Mongo): Promise<Asked[]> {
  const attempt = await storeAttempt(mongo, SUBMITTED);
  const graded = await postGrading(mongo, attempt);
  await postHandoff(mongo, attempt);
  await postRelease(mongo, { examId: attempt.examId, sourceEventId: 'release-1' });
  const delivery = await postDelivery(mongo);
  const { account, session } = await storeSignedIn(mongo);
  const job = await postJob(mongo, { request: { actorId: account._id } });
  const settlement = await postSettlement(mongo);
  const fanOut = sampleFanOut({ rows: 2 });
  const facts = { id: fanOut.fanOutId, now: new Date(), created: 2, organizationId: null };
  const event = newEvent(
    { sourceService: 'exam-service', sourceEventId: newId(), targetUserIds: [account._id] },
    { ...facts, suppressed: [{ userId: account._id, reason: 'MUTED' }] },
  );
  await insertFanOut(mongo, { ...fanOut, event });
  for (const userId of [account._id, ...Array.from({ length: 20 }, (_, n) => `user-${n}`)]) {
    const requestId = `request-of-${userId}`;
    await storeSuppressed(mongo, [{ userId, reason: 'MUTED', type: 'T' }], { requestId, now: Date.now() });
  }
  const byId = [attempt, graded, delivery, account, session, job, settlement].map(({ _id }) => _id);
  await mongo.db
    .collection<Command>(COMMANDS)
    .updateOne({ _id: graded._id }, { $set: { 'cause.requestId': 'request-1' } });
  const others = [
    'request-1',
    `request-of-${account._id}`,
    delivery.subject,
    job.subject,
    settlement.subject,
    fanOut.fanOutId,
    'release-1',
    'unknown',
  ];
  return [
    ...[...byId, ...others, event.sourceEventId ?? ''].map((value): Asked => ({ by: 'id', value })),
    { by: 'student', value: attempt.studentId },
    { by: 'exam', value: attempt.examId },
    { by: 'user', value: account._id },
    ...(['student', 'exam', 'user'] as const).map((by): Asked => ({ by, value: 'unknown' })),
  ];
}
