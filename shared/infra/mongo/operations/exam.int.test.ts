import t from 'tap';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { queueNotices } from '#infra/mongo/attempt/release.ts';
import { COMMANDS, NOTICES } from '#infra/mongo/mailbox/commands.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { gradeNotices } from '#shared/attempt/notices.ts';
import { newId } from '#shared/kernel/ids.ts';
import { sampleAttempt } from '#testing/stored/sample-attempt.ts';
import { freshAttempt, graded, postRelease, SUBMITTED } from '#testing/stored/stored-attempts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { readExam } from './exam.ts';

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
