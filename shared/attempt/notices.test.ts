import t from 'tap';
import { sampleAttempt } from '#testing/stored/sample-attempt.ts';
import { gradeNotices, intakeBody, noticesOnGrade } from './notices.ts';

const now = new Date('2026-05-04T06:00:00.000Z');
const attempt = sampleAttempt({
  _id: 'attempt-1',
  status: 'GRADED',
  accessLinkId: 'canary-link',
  studentInfo: { email: 'canary-mail', phone: 'canary-phone' },
});
const manual = { ...attempt.exam, showResultMode: 'MANUAL' as const };

t.test('a grade queues both rows when the student may see it now, else none', async (t) => {
  t.strictSame(
    noticesOnGrade(attempt, null, now).map(({ recipient, sourceEventId }) => [recipient, sourceEventId]),
    [
      ['STUDENT', 'attempt-1:notification:grade_released'],
      ['PARENT', 'attempt-1:notification:grade_released_parent'],
    ],
  );
  t.strictSame(noticesOnGrade({ ...attempt, exam: manual }, null, now), []);
  t.strictSame(noticesOnGrade({ ...attempt, status: 'SUBMITTED' }, null, now), []);
  const released = { ...attempt, exam: { ...manual, resultsReleasedAt: now } };
  t.strictSame(
    noticesOnGrade(released, 'release-1', now).map((notice) => notice.releaseEventId),
    ['release-1', 'release-1'],
  );
});

t.test("the intake body of the student's notice", async (t) => {
  const [notice] = gradeNotices(attempt, 'release-1');
  if (!notice) throw new Error('no notice');
  const common = {
    preferenceType: 'GRADE_RELEASED',
    entity: 'ExamAttempt',
    entityId: 'attempt-1',
    organizationId: 'org-1',
  };
  t.strictSame(intakeBody(notice, ['student-1']), {
    sourceService: 'attempt-service',
    sourceEventId: 'attempt-1:notification:grade_released',
    type: 'attempt.grade_released.notification.v1',
    ...common,
    targetUserIds: ['student-1'],
    notifications: [
      {
        userId: 'student-1',
        type: 'GRADE_RELEASED',
        title: 'Kết quả bài thi đã được công bố',
        content: 'Bài thi "Toán 12" đã có kết quả.',
        ...common,
      },
    ],
    payload: {
      schemaVersion: 1,
      attemptId: 'attempt-1',
      examId: 'exam-1',
      examTitle: 'Toán 12',
      releaseEventId: 'release-1',
    },
  });
});

t.test("the parents' notice names each of them, and nothing it need not", async (t) => {
  const [, notice] = gradeNotices({ ...attempt, organizationId: null }, null);
  if (!notice) throw new Error('no notice');
  const body = intakeBody(notice, ['parent-1', 'parent-2']);
  t.strictSame(
    body.notifications.map(({ userId, type, content }) => [userId, type, content]),
    [
      ['parent-1', 'GRADE_RELEASED_PARENT', 'Bài thi của con bạn "Toán 12" đã có kết quả.'],
      ['parent-2', 'GRADE_RELEASED_PARENT', 'Bài thi của con bạn "Toán 12" đã có kết quả.'],
    ],
  );
  t.notOk('organizationId' in body);
  t.notOk('releaseEventId' in body.payload);
  t.notMatch(JSON.stringify(body), 'canary');
});

t.test('a title without end still makes a notice that can be received', async (t) => {
  const [notice] = gradeNotices({ ...attempt, exam: { ...attempt.exam, title: '😀'.repeat(15_000) } }, null);
  if (!notice) throw new Error('no notice');
  const { content } = intakeBody(notice, ['student-1']).notifications[0] ?? { content: '' };
  t.ok(content.length < 20_000);
  t.ok(content.isWellFormed(), 'no letter is cut in two');
});
