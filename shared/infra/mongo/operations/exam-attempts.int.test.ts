import t from 'tap';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { WORKERS, type WorkerRow } from '#infra/mongo/live-workers.ts';
import { COMMANDS } from '#infra/mongo/mailbox/commands.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { newId } from '#shared/kernel/ids.ts';
import { type ExamWalk, readWalkCursor } from '#shared/operations/exam-walk.ts';
import { openChance } from '#testing/chance.ts';
import { sampleAnswer, sampleAttempt } from '#testing/stored/sample-attempt.ts';
import { freshAttempt, graded, postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { workerRow } from '#testing/stored/stored-workers.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { readExamAttempts } from './exam-attempts.ts';

const mongo = await openTestMongo(t);
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
