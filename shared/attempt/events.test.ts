import t from 'tap';
import { sampleAnswer, sampleAttempt, samplePaper } from '#testing/stored/sample-attempt.ts';
import { analyticsEvents } from './analytics.ts';
import { attemptEvent, metadataFault, submitEventType, submitMetadata, visibleMetadata } from './events.ts';

const at = new Date('2026-05-04T03:00:00.000Z');

t.test('event metadata keeps any key', async (t) => {
  const metadata = { $set: 1, 'a.b': { $ne: null } };
  t.strictSame(visibleMetadata(attemptEvent(2, 'QUESTION_VIEW', metadata, at), false), metadata);
});

t.test('metadata fields that reveal a grade are null while grades are hidden', async (t) => {
  const source = 'STUDENT';
  const submit = attemptEvent(2, 'SUBMIT', submitMetadata({ source, totalScore: 7.7731, remainingSeconds: 5 }), at);
  t.strictSame(visibleMetadata(submit, false), { source, totalScore: null, remainingSeconds: 5 });
  t.strictSame(visibleMetadata(submit, true), { source, totalScore: 7.7731, remainingSeconds: 5 });
  const handoff = {
    sourceEventId: 'e',
    questionId: 'q',
    score: 1,
    maxScore: 2,
    feedback: 'f',
    criteria: [{ score: 1 }],
  };
  t.strictSame(visibleMetadata(attemptEvent(3, 'ESSAY_GRADE_HANDOFF', handoff, at), false), {
    ...handoff,
    score: null,
    feedback: null,
    criteria: null,
  });
  t.strictSame(
    visibleMetadata(attemptEvent(4, 'TIMEOUT', { tab: 1 }, at), false),
    { tab: 1 },
    'a client added nothing',
  );
});

t.test('who acted and why is for examiners alone, also if the grade is shown', async (t) => {
  for (const type of ['SUBMIT', 'TIME_EXTENDED', 'REOPENED', 'VOIDED', 'RESTORED', 'REGRADED'] as const) {
    const event = attemptEvent(2, type, { minutes: 5, by: 'teacher-1', reason: 'r' }, at);
    t.strictSame(visibleMetadata(event, true), { minutes: 5 }, type);
    t.strictSame(visibleMetadata(event, true, true), { minutes: 5, by: 'teacher-1', reason: 'r' }, type);
  }
});

t.test('a TIMEOUT event contains the metadata of the client as `client`', async (t) => {
  const submit = { source: 'TIMEOUT', totalScore: 1, remainingSeconds: 0 } as const;
  t.strictSame(submitMetadata({ ...submit, client: '{"$tab":{"a.b":1}}' }), {
    ...submit,
    client: { $tab: { 'a.b': 1 } },
  });
  t.notOk('client' in submitMetadata(submit));
});

t.test('a submit by timeout is recorded as a TIMEOUT event', async (t) => {
  t.equal(submitEventType('STUDENT'), 'SUBMIT');
  t.equal(submitEventType('TIMEOUT'), 'TIMEOUT');
});

t.test('metadata of at most 8 KiB as JSON is accepted', async (t) => {
  t.equal(metadataFault({ x: 'a'.repeat(8 * 1024 - 8) }), null);
  const fault = metadataFault({ x: 'a'.repeat(8 * 1024 - 7) });
  t.match(fault, { rejected: 'VALIDATION_FAILED', details: [{ path: '/metadata' }] });
});

const gradedAt = new Date('2026-05-04T03:40:01.000Z');
const paper = samplePaper(
  { score: 1, questionVersionId: 'version-1', contentText: 'canary-content' },
  {
    score: 2,
    type: 'ESSAY',
    options: [],
    scoringRule: { mode: 'ESSAY' },
    answerKey: { acceptedTexts: ['canary-key'] },
  },
  { score: 1, type: 'PICK_ONE' },
);
const attempt = sampleAttempt({
  _id: 'attempt-1',
  status: 'GRADED',
  accessLinkId: 'canary-link',
  studentInfo: JSON.stringify({ email: 'canary-mail' }),
  submittedAt: new Date('2026-05-04T03:40:00.000Z'),
  submittedBy: 'STUDENT',
  durationSeconds: 2_400,
  order: [1, 0, 2],
  maxScore: 4,
  totalScore: 1,
  correctCount: 1,
  wrongCount: 1,
  pendingManualCount: 1,
  answers: {
    q0: sampleAnswer({ selected: ['a'], isCorrect: true, score: 1 }),
    q1: sampleAnswer({ text: 'canary-answer' }),
  },
});

t.test('the first grading yields submitted and graded events with stable ids', async (t) => {
  const events = analyticsEvents(attempt, paper, gradedAt);
  t.strictSame(
    events.map(({ sourceEventId, type, occurredAt }) => [sourceEventId, type, occurredAt]),
    [
      ['attempt-1:submitted', 'attempt.submitted.v1', '2026-05-04T03:40:00.000Z'],
      ['attempt-1:graded', 'attempt.graded.v1', '2026-05-04T03:40:01.000Z'],
    ],
  );
  const { payload, ...head } = events[1] ?? {};
  t.strictSame(head, {
    sourceService: 'attempt-service',
    sourceEventId: 'attempt-1:graded',
    type: 'attempt.graded.v1',
    entity: 'ExamAttempt',
    entityId: 'attempt-1',
    organizationId: 'org-1',
    actorId: 'student-1',
    studentId: 'student-1',
    occurredAt: '2026-05-04T03:40:01.000Z',
  });
  t.strictSame(payload, {
    exam: {
      id: 'exam-1',
      title: 'Toán 12',
      subject: 'Toán',
      gradeLevel: '12',
      status: 'PUBLISHED',
      durationMinutes: 60,
      showResultMode: 'IMMEDIATE',
      closeTime: null,
      resultsReleasedAt: null,
    },
    result: { totalScore: 1, maxScore: 4, scorePercent: 25, correctCount: 1, wrongCount: 1, durationSeconds: 2_400 },
    answerCount: 2,
    questions: [
      {
        questionId: 'question-2',
        questionVersionId: null,
        type: 'ESSAY',
        mode: 'ESSAY',
        score: null,
        maxScore: 2,
        isCorrect: null,
      },
      {
        questionId: 'question-1',
        questionVersionId: 'version-1',
        type: 'SINGLE_CHOICE',
        mode: 'EXACT',
        score: 1,
        maxScore: 1,
        isCorrect: true,
      },
      {
        questionId: 'question-3',
        questionVersionId: null,
        type: 'PICK_ONE',
        mode: 'EXACT',
        score: 0,
        maxScore: 1,
        isCorrect: false,
      },
    ],
  });
  t.notMatch(JSON.stringify(events), 'canary', 'no content, no answer, no key, no student data');
});

t.test('the events of an attempt that contains only practice have no percentage', async (t) => {
  const practice = samplePaper({ score: 0 }, { score: 0 }, { score: 0 });
  const [event] = analyticsEvents({ ...attempt, maxScore: 0, totalScore: 0 }, practice, gradedAt);
  t.match(event?.payload.result, { totalScore: 0, maxScore: 0, scorePercent: null });
});

t.test('the v2 event exists only for an attempt of a course and contains no exam id', async (t) => {
  const ids = {
    courseId: 'c',
    courseQuizReferenceId: 'r',
    lessonId: 'l',
    studentId: 'student-1',
    organizationId: 'org-1',
  };
  const courseContext = { ...ids, validatedBy: 'course-service' as const, validatedAt: gradedAt };
  const events = analyticsEvents({ ...attempt, courseContext }, paper, gradedAt);
  t.equal(events.length, 3);
  t.match(events[2], {
    sourceEventId: 'attempt-1:graded:v2',
    type: 'attempt.graded.v2',
    schemaVersion: 2,
    courseContext: { ...courseContext, validatedAt: gradedAt.toISOString() },
  });
  t.notMatch(JSON.stringify(events[2]), 'examId');
});
