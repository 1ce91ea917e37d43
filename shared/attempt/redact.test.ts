import fc from 'fast-check';
import t from 'tap';
import { sampleAnswer, sampleAttempt, sampleOptions, samplePaper } from '#testing/stored/sample-attempt.ts';
import type { Attempt, AttemptStatus, ShowResultMode } from './attempt.ts';
import { attemptEvent, submitMetadata } from './events.ts';
import { questionIdAt } from './question.ts';
import { redactAttempt, redactEvents, resultOf, studentListItem } from './redact.ts';
import type { Viewer } from './visibility.ts';

const now = new Date('2026-05-04T06:00:00.000Z');
const ADMIN: Viewer = { role: 'ADMIN', id: 'admin-1' };
const STUDENT: Viewer = { role: 'STUDENT', id: 'student-1' };

/** Unique numbers and texts: if one of them appears in a reply, the reply has leaked a grade or a key. */
const GRADE_CANARIES = ['7.7731', '5.5513', '4.4409', '7707', '8808', '9909', 'canary-feedback', 'canary-criterion'];
const KEY_CANARIES = ['canary-key', '31337.25', 'correctOptionIds', 'acceptedTexts', 'numericAnswers', 'answerKey'];

const paper = samplePaper(
  {
    score: 8,
    type: 'SHORT_TEXT',
    options: [],
    scoringRule: { mode: 'SHORT_TEXT' },
    answerKey: { acceptedTexts: ['canary-key'], numericAnswers: [{ value: 31337.25 }] },
  },
  { score: 9, options: sampleOptions('a', 'b', 'c'), optionOrder: [2, 0, 1] },
  {
    score: 6,
    id: 'given-id',
    type: 'ESSAY',
    options: [],
    scoringRule: { mode: 'ESSAY' },
    answerKey: { acceptedTexts: ['canary-key'] },
  },
);

function graded(overrides: Partial<Attempt> = {}): Attempt {
  const handoff = {
    sourceEventId: 'e',
    questionId: 'question-3',
    score: 4.4409,
    maxScore: 6,
    feedback: 'canary-feedback',
    criteria: [{ id: 'canary-criterion', score: 4.4409 }],
  };
  return sampleAttempt({
    status: 'GRADED',
    submittedAt: new Date('2026-05-04T03:40:00.000Z'),
    submittedBy: 'STUDENT',
    durationSeconds: 2_400,
    order: [2, 0, 1],
    optionOrders: [[], [1, 0, 2], []],
    maxScore: 23,
    totalScore: 7.7731,
    correctCount: 7707,
    wrongCount: 8808,
    pendingManualCount: 9909,
    answers: {
      q0: sampleAnswer({ text: 'mine', isCorrect: false, score: 5.5513 }),
      q2: sampleAnswer({ text: 'essay', isCorrect: false, score: 4.4409, serverVersion: 2, clientVersion: 1 }),
    },
    events: [
      attemptEvent(1, 'START', { created: true }, now),
      attemptEvent(2, 'SUBMIT', submitMetadata({ source: 'STUDENT', totalScore: 7.7731, remainingSeconds: 5 }), now),
      attemptEvent(3, 'TIMEOUT', submitMetadata({ source: 'TIMEOUT', totalScore: 7.7731, remainingSeconds: 0 }), now),
      attemptEvent(4, 'ESSAY_GRADE_HANDOFF', handoff, now),
    ],
    eventSeq: 4,
    ...overrides,
  });
}

const detailFor = (attempt: Attempt, viewer: Viewer, shown = paper) =>
  redactAttempt({ attempt, paper: shown, events: attempt.events }, viewer, now);

t.test('questions are in the order of the attempt, renumbered, each with its own option order', async (t) => {
  const { questions } = detailFor(graded(), STUDENT);
  t.strictSame(
    questions.map(({ id, orderIndex, optionOrder, questionId }) => [orderIndex, questionId, id, optionOrder]),
    [
      [0, 'question-3', 'given-id', []],
      [1, 'question-1', questionIdAt(graded(), 0, { id: null }), []],
      [2, 'question-2', questionIdAt(graded(), 1, { id: null }), ['b', 'a', 'c']],
    ],
  );
  const unshuffled = detailFor(graded({ optionOrders: [] }), STUDENT).questions[2]?.optionOrder;
  t.strictSame(unshuffled, ['c', 'a', 'b'], "the paper's own order");
  const plain = detailFor(sampleAttempt(), STUDENT, samplePaper({}));
  t.strictSame(plain.questions[0]?.optionOrder, ['a', 'b', 'c']);
});

t.test('a detail contains stored answers only', async (t) => {
  t.strictSame(detailFor(graded(), STUDENT).answers, [
    {
      questionId: 'question-3',
      answer: { textAnswer: 'essay' },
      isCorrect: false,
      score: 4.4409,
      serverVersion: 2,
      clientVersion: 1,
      updatedAt: '2026-05-04T03:10:00.000Z',
    },
    {
      questionId: 'question-1',
      answer: { textAnswer: 'mine' },
      isCorrect: false,
      score: 5.5513,
      serverVersion: 1,
      clientVersion: 0,
      updatedAt: '2026-05-04T03:10:00.000Z',
    },
  ]);
});

t.test('a detail contains exactly the named fields', async (t) => {
  const detail = detailFor(graded(), STUDENT);
  t.strictSame(Object.keys(detail), [
    'id',
    'examId',
    'studentId',
    'organizationId',
    'accessLinkId',
    'attemptNumber',
    'status',
    'startedAt',
    'submittedAt',
    'deadlineAt',
    'durationSeconds',
    'submittedBy',
    'totalScore',
    'maxScore',
    'correctCount',
    'wrongCount',
    'pendingManualCount',
    'studentInfo',
    'courseContext',
    'resultVisible',
    'hiddenReason',
    'serverTime',
    'exam',
    'questions',
    'answers',
    'events',
    'eventCount',
  ]);
  t.match(detail, { totalScore: 7.7731, eventCount: 4, serverTime: now.toISOString(), resultVisible: true });
  const seed = graded({ seed: 'canary-seed', startKeys: ['canary-start-key'], paperId: 'canary-paper' });
  t.notMatch(JSON.stringify(detailFor(seed, ADMIN)), 'canary-s');
  const [start, submit] = JSON.parse(JSON.stringify(detail.events)) as typeof detail.events;
  t.match(start, { attemptId: graded()._id, type: 'START', metadata: { created: true }, createdAt: now.toISOString() });
  t.not(start?.id, submit?.id);
  t.equal(detailFor(graded(), ADMIN).events[0]?.id, start?.id, 'ids are stable');
});

t.test('only examiners receive the answer key, in every status', async (t) => {
  for (const status of ['IN_PROGRESS', 'SUBMITTED', 'GRADED'] as const) {
    for (const viewer of [ADMIN, { role: 'TEACHER', id: 'teacher-2' } as const]) {
      t.strictSame(detailFor(graded({ status }), viewer).questions[2]?.answerKey, { correctOptionIds: ['a'] });
    }
  }
});

t.test('a course context in a reply contains its identifiers and an ISO time', async (t) => {
  const ids = { courseId: 'c', courseQuizReferenceId: 'r', lessonId: 'l', studentId: 's', organizationId: 'o' };
  const courseContext = { ...ids, validatedBy: 'course-service' as const, validatedAt: now };
  t.strictSame(detailFor(graded({ courseContext }), STUDENT).courseContext, {
    ...courseContext,
    validatedAt: now.toISOString(),
  });
});

t.test('result and list show the same values as the detail', async (t) => {
  const attempt = graded();
  const shown = resultOf(detailFor(attempt, STUDENT));
  t.equal(shown.scorePercent, (7.7731 / 23) * 100);
  t.equal(resultOf(detailFor(graded({ totalScore: 0 }), STUDENT)).scorePercent, 0);
  const practice = graded({ totalScore: 0, maxScore: 0 });
  t.equal(resultOf(detailFor(practice, STUDENT)).scorePercent, null, 'there is no percentage of nothing');
  t.equal(resultOf(detailFor(graded({ status: 'SUBMITTED', totalScore: null }), ADMIN)).scorePercent, null);
  t.strictSame(studentListItem(attempt, now), {
    id: attempt._id,
    examId: 'exam-1',
    status: 'GRADED',
    startedAt: '2026-05-04T03:00:00.000Z',
    submittedAt: '2026-05-04T03:40:00.000Z',
    deadlineAt: '2026-05-04T04:00:00.000Z',
    durationSeconds: 2_400,
    totalScore: 7.7731,
    correctCount: 7707,
    wrongCount: 8808,
    resultVisible: true,
    hiddenReason: null,
    exam: {
      id: 'exam-1',
      title: 'Toán 12',
      subject: 'Toán',
      gradeLevel: '12',
      durationMinutes: 60,
      showResultMode: 'IMMEDIATE',
      closeTime: null,
    },
  });
});

const CANARY_SCOPE = {
  createdById: 'teacher-1',
  assignedClassroomIds: ['canary-class'],
  resultViewerTeacherIds: ['teacher-2'],
};

t.test('only examiners receive the teacher scope, in every status', async (t) => {
  for (const status of ['IN_PROGRESS', 'SUBMITTED', 'GRADED'] as const) {
    for (const viewer of [ADMIN, { role: 'TEACHER', id: 'teacher-1' }, { role: 'TEACHER', id: 'teacher-2' }] as const) {
      t.strictSame(detailFor(graded({ status, scope: CANARY_SCOPE }), viewer).scope, CANARY_SCOPE);
    }
  }
});

t.test('no reply shows a hidden value, for every combination of mode, time, release, status and viewer', async (t) => {
  const modes: ShowResultMode[] = ['IMMEDIATE', 'AFTER_CLOSE', 'MANUAL'];
  const times = [null, new Date(now.getTime() - 1), now, new Date(now.getTime() + 1)];
  const statuses: AttemptStatus[] = ['IN_PROGRESS', 'SUBMITTED', 'GRADED'];
  const others: Viewer[] = [
    STUDENT,
    { role: 'STUDENT', id: 'student-2' },
    { role: 'TEACHER', id: 'teacher-9' },
    { role: 'PARENT', id: 'parent-1' },
    { role: 'SERVICE', id: 'ai-classifier-service' },
  ];
  let hidden = 0;
  let shown = 0;
  for (const showResultMode of modes)
    for (const closeTime of times)
      for (const resultsReleasedAt of times)
        for (const status of statuses)
          for (const viewer of others) {
            const exam = { ...sampleAttempt().exam, showResultMode, closeTime, resultsReleasedAt };
            const attempt = graded({ exam, status, scope: CANARY_SCOPE });
            const detail = detailFor(attempt, viewer);
            const captured = JSON.stringify([
              resultOf(detail),
              redactEvents(attempt, attempt.events, viewer, now),
              studentListItem(attempt, now),
            ]);
            const what = `${showResultMode} ${closeTime?.getTime()} ${resultsReleasedAt?.getTime()} ${status} ${viewer.role}`;
            const keys = KEY_CANARIES.filter((canary) => captured.includes(canary));
            if (keys.length > 0) t.fail(`${what} leaks the key: ${keys}`);
            if (captured.includes('canary-class') || 'scope' in detail) t.fail(`${what} leaks the scope`);
            const maySee =
              status === 'GRADED' &&
              (showResultMode === 'IMMEDIATE' ||
                (resultsReleasedAt !== null && resultsReleasedAt <= now) ||
                (showResultMode === 'AFTER_CLOSE' && closeTime !== null && closeTime <= now));
            const grades = GRADE_CANARIES.filter((canary) => captured.includes(canary));
            if (maySee) {
              shown += 1;
              if (grades.length !== GRADE_CANARIES.length || detail.hiddenReason !== null)
                t.fail(`${what} hides ${grades}`);
            } else {
              hidden += 1;
              if (grades.length > 0 || detail.hiddenReason === null) t.fail(`${what} leaks ${grades}`);
              if (detail.maxScore !== 23) t.fail('maxScore stays');
              if (detail.answers.some((answer) => answer.isCorrect !== null)) t.fail(`${what} leaks isCorrect`);
            }
          }
  t.equal(hidden + shown, 3 * 4 * 4 * 3 * 5);
  t.ok(shown > 100 && hidden > 100, `${shown} shown, ${hidden} hidden`);
});

t.test('an examiner sees every grade from SUBMITTED on', async (t) => {
  const exam = { ...sampleAttempt().exam, showResultMode: 'MANUAL' as const };
  for (const viewer of [ADMIN, { role: 'TEACHER', id: 'teacher-1' } as const]) {
    const captured = JSON.stringify(detailFor(graded({ exam }), viewer));
    t.strictSame(
      GRADE_CANARIES.filter((canary) => !captured.includes(canary)),
      [],
    );
  }
});

t.test('metadata of client events is returned unchanged', async () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (metadata) => {
      const client = JSON.stringify(metadata);
      const timeout = submitMetadata({ source: 'TIMEOUT', totalScore: 7.7731, remainingSeconds: 0, client });
      const attempt = graded({
        exam: { ...sampleAttempt().exam, showResultMode: 'MANUAL' },
        events: [attemptEvent(1, 'TAB_HIDDEN', metadata, now), attemptEvent(2, 'TIMEOUT', timeout, now)],
      });
      const [logged, timedOut] = redactEvents(attempt, attempt.events, STUDENT, now);
      const { client: kept, totalScore } = JSON.parse(JSON.stringify(timedOut?.metadata));
      return JSON.stringify(logged?.metadata) === client && JSON.stringify(kept) === client && totalScore === null;
    }),
  );
});

const choice = samplePaper({ options: sampleOptions('a', 'b', 'c'), optionOrder: [2, 0, 1] });

/** Returns an attempt whose shuffled option order overrides the order of the paper. */
const shuffled = (overrides: Partial<Attempt> = {}) => sampleAttempt({ optionOrders: [[1, 0, 2]], ...overrides });

t.test('examiners receive the options in authored order, all other viewers in the order of optionOrder', async (t) => {
  const idsFor = (attempt: Attempt, viewer: Viewer) =>
    detailFor(attempt, viewer, choice).questions.flatMap((question) => question.options.map(({ id }) => id));
  const others = [STUDENT, { role: 'SERVICE', id: '' }, { role: 'TEACHER', id: 'teacher-9' }] as const;
  for (const status of ['IN_PROGRESS', 'SUBMITTED', 'GRADED'] as const) {
    for (const viewer of others) {
      t.strictSame(idsFor(shuffled({ status }), viewer), ['b', 'a', 'c'], `${viewer.role}, shuffled`);
      t.strictSame(idsFor(shuffled({ status, optionOrders: [] }), viewer), ['c', 'a', 'b'], `${viewer.role}, as sent`);
    }
    for (const viewer of [ADMIN, { role: 'TEACHER', id: 'teacher-1' } as const]) {
      const { options, optionOrder } = detailFor(shuffled({ status }), viewer, choice).questions[0] ?? {};
      t.strictSame([options, optionOrder], [sampleOptions('a', 'b', 'c'), ['b', 'a', 'c']], viewer.role);
    }
  }
});

t.test('a reply to a student does not depend on the authored order of the options', async () => {
  const orders = fc.shuffledSubarray([0, 1, 2, 3], { minLength: 4 });
  fc.assert(
    fc.property(orders, orders, (authored, seen) => {
      const ids = authored.map((position) => 'abcd'.charAt(position));
      const wanted = seen.map((position) => 'abcd'.charAt(position));
      const positions = wanted.map((id) => ids.indexOf(id));
      const options = sampleOptions(...ids);
      const reply = (attempt: Attempt, optionOrder: number[] | null) =>
        JSON.stringify(detailFor(attempt, STUDENT, samplePaper({ options, optionOrder })).questions);
      const plain = detailFor(sampleAttempt(), STUDENT, samplePaper({ options: sampleOptions(...wanted) }));
      const expected = JSON.stringify(plain.questions);
      return (
        reply(sampleAttempt({ optionOrders: [positions] }), null) === expected &&
        reply(sampleAttempt(), positions) === expected
      );
    }),
  );
});

t.test('a detail contains the whole student info', async () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (info) => {
      const text = JSON.stringify(info);
      return JSON.stringify(detailFor(shuffled({ studentInfo: text }), STUDENT, choice).studentInfo) === text;
    }),
  );
});
