import t from 'tap';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { queueNotices } from '#infra/mongo/attempt/release.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { WORKERS, type WorkerRow } from '#infra/mongo/live-workers.ts';
import { COMMANDS, NOTICES } from '#infra/mongo/mailbox/commands.ts';
import { insertFanOut } from '#infra/mongo/notification/fan-out.ts';
import { storeSuppressed } from '#infra/mongo/notification/suppressions.ts';
import { createIndexes } from '#infra/mongo/schema/migrate.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { gradeNotices } from '#shared/attempt/notices.ts';
import type { Command } from '#shared/kernel/command.ts';
import { newId } from '#shared/kernel/ids.ts';
import { newEvent } from '#shared/notification/event.ts';
import { type ExamWalk, readWalkCursor } from '#shared/operations/exam-walk.ts';
import { openChance } from '#testing/chance.ts';
import { sampleAnswer, sampleAttempt } from '#testing/stored/sample-attempt.ts';
import { storeSignedIn } from '#testing/stored/stored-accounts.ts';
import {
  freshAttempt,
  graded,
  postGrading,
  postHandoff,
  postRelease,
  SUBMITTED,
  storeAttempt,
} from '#testing/stored/stored-attempts.ts';
import { workerRow } from '#testing/stored/stored-commands.ts';
import { postJob, postSettlement } from '#testing/stored/stored-model-work.ts';
import { postDelivery, sampleFanOut } from '#testing/stored/stored-notifications.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { isStandInInPython, noneScans, planOf, watchFilters } from '#testing/stores/plans.ts';
import { auditExamAttempts, auditTrace } from './audit.ts';
import { readExam } from './exam.ts';
import { readExamAttempts } from './exam-attempts.ts';
import { type Asked, readTrace } from './trace.ts';

const mongo = await openTestMongo(t);
const now = Date.parse('2026-05-04T05:00:00.000Z');
const deadlineAt = new Date('2026-05-04T04:00:00.000Z');
const ms = (time: string) => new Date(`2026-05-04T${time}Z`);

t.test('counts attempts by status, late ones and essays, and nothing of another exam', async (t) => {
  const examId = `exam-${newId()}`;
  const { tally } = sampleAttempt();
  const rows: Partial<Attempt>[] = [
    { deadlineAt },
    { deadlineAt: new Date(now) },
    { deadlineAt: new Date(now + 1) },
    { deadlineAt: null },
    { ...SUBMITTED, deadlineAt, submittedAt: ms('03:30:00') },
    { ...SUBMITTED, deadlineAt: null },
    { ...SUBMITTED, deadlineAt, submittedAt: ms('04:00:01') },
    { ...graded(), deadlineAt, submittedAt: deadlineAt, pendingManualCount: 2, tally: { ...tally, released: true } },
    { ...graded(), deadlineAt, submittedAt: ms('04:30:00'), pendingManualCount: 0 },
  ];
  await attempts(mongo).insertMany(rows.map((row) => freshAttempt({ examId, ...row })));
  await attempts(mongo).insertOne(freshAttempt({ examId: `${examId}-2` }));
  t.match(await readExam(mongo, examId, now), {
    examId,
    at: '2026-05-04T05:00:00.000Z',
    title: 'Toán 12',
    showResultMode: 'IMMEDIATE',
    newestStartAt: '2026-05-04T03:00:00.000Z',
    attempts: { total: 9, byStatus: { IN_PROGRESS: 4, SUBMITTED: 3, GRADED: 2 } },
    late: { inProgress: 2, submitted: 2 },
    essays: { attempts: 1, answers: 2 },
    notices: { waiting: 0, dead: 0 },
    results: { released: 1, releases: [] },
  });
  t.equal(await readExam(mongo, 'unknown', now), null);
});

t.test('counts notices that wait or are dead, and follows the command of a release', async (t) => {
  const examId = `exam-${newId()}`;
  const three = [1, 2, 3].map(() => freshAttempt({ examId, ...graded() }));
  await attempts(mongo).insertMany(three);
  await inTransaction(mongo, 60_000, (session) =>
    queueNotices(
      mongo,
      session,
      three.flatMap((attempt) => gradeNotices(attempt)),
      { maxAttempts: 30, now },
    ),
  );
  const [first, second, third] = three.map(({ _id }) => `${_id}:notification:grade_released`);
  const change = (key: string | undefined, fields: object) =>
    mongo.db.collection(NOTICES).updateOne({ key }, { $set: { settledAt: new Date(), ...fields } });
  await change(first, { status: 'DELIVERED' });
  await change(second, { status: 'DEAD' });
  await change(third, { status: 'DEAD', letter: 'DROPPED' });
  const release = await postRelease(mongo, { examId, sourceEventId: 'r-1', releasedAt: new Date(now - 1) });
  await postRelease(mongo, { examId, sourceEventId: 'r-2', releasedAt: new Date(now + 1) });
  const releases = [
    { sourceEventId: 'r-2', state: 'AHEAD', command: 'PENDING', updatedAttempts: 0, queuedNotifications: 0 },
    { sourceEventId: 'r-1', state: 'RELEASED', command: 'PENDING' },
  ];
  t.match(await readExam(mongo, examId, now), { notices: { waiting: 3, dead: 1 }, results: { released: 0, releases } });

  const counts = { updatedAttempts: 100, queuedNotifications: 200 };
  const write = (fields: object) =>
    mongo.db.collection<{ _id: string }>(COMMANDS).updateOne({ _id: release._id }, { $set: fields });
  const told = async () => (await readExam(mongo, examId, now))?.results.releases[1];
  await write({ lockedUntil: new Date(now + 1_000), progress: { ...counts, afterId: 'x' } });
  t.match(await told(), { command: 'LEASED', ...counts });
  await write({ status: 'DONE', lockedUntil: null, result: { updatedAttempts: 300, queuedNotifications: 600 } });
  t.match(await told(), { command: 'DONE', updatedAttempts: 300, queuedNotifications: 600 });
});

t.test('an exam with a release and no attempt is known', async (t) => {
  await postRelease(mongo, { examId: 'only-released' });
  t.match(await readExam(mongo, 'only-released', now), { title: null, attempts: { total: 0 } });
});

const FACTS = { now: Date.now(), redis: 'up' } as const;
const ALL = { status: null, student: null };

async function page(walk: ExamWalk, after: string | null, limit: number) {
  const found = await readExamAttempts(mongo, { ...walk, after, limit }, FACTS);
  if (found === null) throw new Error('the exam is unknown');
  return found;
}

t.test('a walk meets each attempt once while others start, change, are released and erased', async (t) => {
  const chance = openChance((line) => t.comment(line));
  for (let round = 0; round < 4; round++) {
    const examId = `exam-${newId()}`;
    const stored = Array.from({ length: 20 }, () => freshAttempt({ examId }));
    await attempts(mongo).insertMany(stored);
    // The first rounds walk everything, the others attempts of one status.
    const walk: ExamWalk = { examId, status: round < 2 ? null : 'IN_PROGRESS', student: null };
    const changed = new Set<string>();
    const met: string[] = [];
    let after: string | null = null;
    do {
      const { attempts: found, nextCursor } = await page(walk, after, 1 + chance.below(7));
      met.push(...found.map(({ id }) => id));
      if (walk.status !== null) t.ok(found.every(({ status }) => status === walk.status));
      after = nextCursor === null ? null : readWalkCursor(walk, nextCursor);
      // A front door whose clock is behind starts an attempt whose id comes before the cursor.
      const early = `0${newId().slice(1)}`;
      await attempts(mongo).insertMany([freshAttempt({ examId, _id: early }), freshAttempt({ examId })]);
      const { _id, studentId } = chance.pick(stored);
      changed.add(_id);
      const status = chance.pick(['SUBMITTED', 'GRADED'] as const);
      const erased = chance.below(2) === 0 ? { studentId: `erased-${newId()}` } : {};
      const change = { status, ...erased, 'exam.resultsReleasedAt': new Date(), deadlineAt: new Date(chance.below(9)) };
      await attempts(mongo).updateOne({ _id, studentId }, { $set: change });
    } while (after !== null && met.length < 500);
    t.equal(new Set(met).size, met.length, 'no attempt is met twice');
    const wanted = stored.filter(({ _id }) => walk.status === null || !changed.has(_id));
    t.strictSame(
      wanted.map(({ _id }) => _id).filter((id) => !met.includes(id)),
      [],
    );
  }
});

t.test('filters narrow a walk, and an unknown exam returns null', async (t) => {
  const examId = `exam-${newId()}`;
  const [first = '', second = '', third = ''] = [newId(), newId(), newId()].sort();
  const mine = await storeAttempt(mongo, { _id: first, examId, ...SUBMITTED });
  const again = await storeAttempt(mongo, { _id: second, examId, studentId: mine.studentId, attemptNumber: 2 });
  const other = await storeAttempt(mongo, { _id: third, examId, ...SUBMITTED });
  await storeAttempt(mongo, { studentId: mine.studentId });
  const ids = async (filter: Partial<ExamWalk>, limit = 50) =>
    (await page({ examId, ...ALL, ...filter }, null, limit)).attempts.map(({ id }) => id);
  t.strictSame(await ids({}), [mine._id, again._id, other._id]);
  t.strictSame(await ids({}, 2), [mine._id, again._id]);
  t.strictSame(await ids({ status: 'SUBMITTED' }), [mine._id, other._id]);
  t.strictSame(await ids({ student: mine.studentId }), [mine._id, again._id]);
  t.strictSame(await ids({ student: mine.studentId, status: 'IN_PROGRESS' }), [again._id]);
  t.strictSame(await ids({ student: 'unknown' }), [], 'the exam is known');
  const unknown = await readExamAttempts(mongo, { examId: 'unknown', ...ALL, after: null, limit: 1 }, FACTS);
  t.equal(unknown, null);
});

t.test(
  'a row has times, lateness, the grade’s progress and the result’s state, and no answer and no score',
  async (t) => {
    const examId = `exam-${newId()}`;
    const exam = { ...sampleAttempt().exam, showResultMode: 'MANUAL' } as const;
    const deadlineAt = new Date(FACTS.now - 90_500);
    const ids = Array.from({ length: 5 }, () => newId()).sort();
    const store = (change: Partial<Attempt>) =>
      storeAttempt(mongo, { _id: ids.shift() ?? '', examId, exam, deadlineAt, ...change });
    const open = await store({
      answers: {
        q0: sampleAnswer({ selected: ['a'], updatedAt: new Date('2026-05-04T03:20:00.000Z') }),
        q1: sampleAnswer({ text: 'Sông Hương', updatedAt: new Date('2026-05-04T03:12:00.000Z') }),
      },
    });
    const submitted = await store({ ...SUBMITTED, submittedAt: new Date(deadlineAt.getTime() + 3_999), answers: {} });
    await postGrading(mongo, submitted);
    const dead = await store({ ...SUBMITTED, submittedAt: deadlineAt });
    const command = await postGrading(mongo, dead);
    const lastError = { fingerprint: 'Error', message: 'the disk is full', at: new Date() };
    await mongo.db.collection<{ _id: string }>(COMMANDS).updateOne(
      { _id: command._id },
      {
        $set: { status: 'DEAD', attempts: 1, settledAt: new Date(), lastError },
      },
    );
    const essay = await store({ ...graded({ showResultMode: 'MANUAL' }), deadlineAt: null });
    const shown = await store({ ...graded(), pendingManualCount: 0 });

    const found = await page({ examId, ...ALL }, null, 50);
    t.match(found.attempts, [
      {
        id: open._id,
        studentId: open.studentId,
        status: 'IN_PROGRESS',
        lastSavedAt: '2026-05-04T03:20:00.000Z',
        lateSeconds: 90,
        questions: 2,
        answered: 2,
        grading: 'NOT_SUBMITTED',
        results: 'NOT_SUBMITTED',
      },
      {
        id: submitted._id,
        lastSavedAt: null,
        lateSeconds: 3,
        grading: 'WAITING',
        reason: { code: 'NO_WORKER' },
        results: 'NOT_GRADED',
      },
      { id: dead._id, lateSeconds: null, grading: 'DEAD', reason: { code: 'DEAD', remedy: /examhall dead replay/ } },
      { id: essay._id, lateSeconds: null, grading: 'ESSAYS_PENDING', pendingEssays: 1, results: 'WAITS_FOR_RELEASE' },
      { id: shown._id, grading: 'COMPLETE', reason: null, pendingEssays: 0, results: 'VISIBLE' },
    ]);
    t.notMatch(JSON.stringify(found), /Sông Hương|selected|"score|totalScore|stamp/);

    await mongo.db.collection<WorkerRow>(WORKERS).insertOne(workerRow('grading', { slots: 1 }));
    const lockedUntil = new Date(FACTS.now + 60_000);
    const key = `grading:${submitted._id}`;
    await mongo.db.collection(COMMANDS).updateOne({ key }, { $set: { lockedUntil, nextRunAt: lockedUntil } });
    const [, leased] = (await page({ examId, ...ALL }, null, 50)).attempts;
    t.match(leased, { grading: 'RUNNING' });
  },
);

// Plans of the reads of an exam and of a trace.

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
