import fc from 'fast-check';
import t from 'tap';
import { sampleAttempt } from '#testing/stored/sample-attempt.ts';
import type { Attempt, ShowResultMode } from './attempt.ts';
import { gradeNotices, intakeBody, isEarly, noticesOnGrade, noticesOnRestore, unheardOf } from './notices.ts';
import { visibilityForStudent } from './visibility.ts';

const now = new Date('2026-05-04T06:00:00.000Z');
const attempt = sampleAttempt({
  _id: 'attempt-1',
  status: 'GRADED',
  accessLinkId: 'canary-link',
  studentInfo: JSON.stringify({ email: 'canary-mail', phone: 'canary-phone' }),
});
const manual = { ...attempt.exam, showResultMode: 'MANUAL' as const };

t.test('grading queues both notices if the student may see the result now, else none', async (t) => {
  t.strictSame(
    noticesOnGrade(attempt, now).map(({ recipient, sourceEventId }) => [recipient, sourceEventId]),
    [
      ['STUDENT', 'attempt-1:notification:grade_released'],
      ['PARENT', 'attempt-1:notification:grade_released_parent'],
    ],
  );
  t.strictSame(noticesOnGrade({ ...attempt, exam: manual }, now), []);
  t.strictSame(noticesOnGrade({ ...attempt, status: 'SUBMITTED' }, now), []);
  t.strictSame(
    noticesOnGrade({ ...attempt, status: 'SUBMITTED', exam: { ...manual, resultsReleasedAt: now } }, now),
    [],
  );
});

t.test('a restore announces the newest regrade of the round, if its student sees the result', async (t) => {
  const change = { at: now, by: null, totalScore: 1, maxScore: 1, reason: null, regradeId: null };
  const regrade = (regradeId: string) => ({ ...change, cause: 'REGRADE' as const, regradeId });
  const first = { ...regrade('first'), isNews: true as const };
  const rows = (scoreHistory: NonNullable<Attempt['scoreHistory']>, exam = attempt.exam) =>
    noticesOnRestore({ ...attempt, exam, voidedAt: now, scoreHistory }, now).map(({ grade, regrade }) =>
      [grade, regrade?.notice].flatMap((row) => row?.sourceEventId.split(':').slice(2).join(':') ?? []),
    );
  const both = [
    ['grade_released', 'regraded:first'],
    ['grade_released_parent', 'regraded_parent:first'],
  ];
  const grade = both.map(([notice]) => [notice]);
  t.strictSame(rows([first, regrade('silent')]), both);
  t.strictSame(rows([first, { ...change, cause: 'REOPEN' }, regrade('silent')]), grade, 'of this round');
  t.strictSame(rows([first], { ...manual, resultsReleasedAt: new Date(now.getTime() + 1) }), grade, 'once it is seen');
  t.strictSame(rows([first], manual), []);

  const owed = noticesOnRestore({ ...attempt, voidedAt: now, scoreHistory: [first] }, now);
  const unheard = (...queued: [suffix: string, offsetMs: number][]) => {
    const at = queued.map(
      ([suffix, ms]) => [`${attempt._id}:notification:${suffix}`, new Date(now.getTime() + ms)] as const,
    );
    return unheardOf(owed, new Map(at)).map(({ sourceEventId }) => sourceEventId.split(':').slice(2).join(':'));
  };
  const parent = 'grade_released_parent';
  t.strictSame(unheard(), ['grade_released', parent]);
  t.strictSame(unheard(['grade_released', -1], [parent, 0]), ['regraded:first'], 'announced before the regrade');
  t.strictSame(unheard(['grade_released', -1], ['regraded:first', 0], [parent, 0]), []);
});

t.test('a notice names a release only if the release makes the result visible', async (t) => {
  const released = { ...attempt, releaseEventId: 'release-1', exam: { ...manual, resultsReleasedAt: now } };
  const causes = (of: Parameters<typeof noticesOnGrade>[0]) =>
    noticesOnGrade(of, now).map(({ releaseEventId, notBefore }) => [releaseEventId, notBefore]);
  t.strictSame(causes(released), [
    ['release-1', now],
    ['release-1', now],
  ]);
  const shown = { ...released, exam: { ...released.exam, showResultMode: 'IMMEDIATE' as const } };
  t.strictSame(causes(shown), [
    [null, null],
    [null, null],
  ]);
});

t.test('grading queues notices if the result is visible or has a release time, and they wait for it', async () => {
  const instant = fc.option(
    fc.integer({ min: -3, max: 3 }).map((ms) => new Date(now.getTime() + ms)),
    { nil: null },
  );
  fc.assert(
    fc.property(
      fc.constantFrom<ShowResultMode>('IMMEDIATE', 'AFTER_CLOSE', 'MANUAL'),
      instant,
      instant,
      (showResultMode, closeTime, resultsReleasedAt) => {
        const graded = { ...attempt, exam: { ...attempt.exam, showResultMode, closeTime, resultsReleasedAt } };
        const seenAt = (at: Date) => visibilityForStudent(graded, at).resultVisible;
        const queued = noticesOnGrade(graded, now);
        if (queued.length !== (seenAt(now) || resultsReleasedAt !== null ? 2 : 0)) return false;
        // No notice waits while the student may see the result, and no notice is sent while the result is hidden.
        return queued.every(
          (notice) =>
            isEarly(notice, now) === !seenAt(now) && seenAt(isEarly(notice, now) ? (notice.notBefore ?? now) : now),
        );
      },
    ),
  );
});

t.test("the intake body of the student's notice contains all its fields", async (t) => {
  const [notice] = gradeNotices(attempt, { releaseEventId: 'release-1', notBefore: now });
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

t.test("the parents' notice contains one notification per parent and no unnecessary field", async (t) => {
  const [, notice] = gradeNotices({ ...attempt, organizationId: null });
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

t.test('a very long title is cut so that the receiver accepts the notice', async (t) => {
  const [notice] = gradeNotices({ ...attempt, exam: { ...attempt.exam, title: '😀'.repeat(15_000) } });
  if (!notice) throw new Error('no notice');
  const { content } = intakeBody(notice, ['student-1']).notifications[0] ?? { content: '' };
  t.ok(content.length < 20_000);
  t.ok(content.isWellFormed(), 'no letter is cut in two');
});
