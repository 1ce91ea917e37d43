import t from 'tap';
import { isRejection } from '#shared/kernel/errors.ts';
import type { CourseContextInput, StartExam } from './start-body.ts';
import { bindStart } from './start-rules.ts';

const exam: StartExam = {
  id: 'exam-1',
  organizationId: 'org-1',
  title: 'Toán',
  status: 'PUBLISHED',
  showResultMode: 'IMMEDIATE',
};
const context: CourseContextInput = {
  courseId: 'course-1',
  courseQuizReferenceId: 'quiz-1',
  lessonId: 'lesson-1',
  studentId: 'student-1',
  organizationId: 'org-1',
  examId: 'exam-1',
  validatedBy: 'course-service',
  validatedAt: '2026-05-04T02:00:00+07:00',
};
const request = { examId: 'exam-1', studentId: 'student-1', courseMarker: 'course-service' };

function verdict(overrides: Partial<CourseContextInput>, asked: Partial<typeof request> = {}): string {
  const courseAttemptContext = { ...context, ...overrides };
  const bound = bindStart({ ...request, ...asked }, { exam, courseAttemptContext });
  return isRejection(bound) ? bound.rejected : 'bound';
}

t.test('rule 2: path and body must name the same exam', async (t) => {
  t.equal(verdict({}, { examId: 'exam-2' }), 'EXAM_ID_MISMATCH', 'rule 2 is checked before the course context');
});

t.test('rule 12: the stored context has no exam id and an instant as its time', async (t) => {
  const { examId: _, ...kept } = context;
  t.strictSame(bindStart(request, { exam, courseAttemptContext: context }), {
    courseContext: { ...kept, validatedAt: new Date('2026-05-03T19:00:00.000Z') },
  });
  t.strictSame(bindStart({ ...request, courseMarker: null }, { exam }), { courseContext: null });
});

t.test('rule 12: a context may omit its exam and is stored without additional members', async (t) => {
  const { examId: _, ...kept } = context;
  const stored = { courseContext: { ...kept, validatedAt: new Date('2026-05-03T19:00:00.000Z') } };
  t.strictSame(bindStart(request, { exam, courseAttemptContext: kept }), stored);
  const more = { ...kept, examId: null, lessonTitle: 'drop me' };
  t.strictSame(bindStart(request, { exam, courseAttemptContext: more }), stored);
});

t.test('rule 12: a context without the marker of the course service is untrusted', async (t) => {
  t.equal(verdict({}), 'bound');
  for (const courseMarker of ['', 'exam-service', 'Course-Service']) {
    t.equal(verdict({}, { courseMarker }), 'COURSE_CONTEXT_UNTRUSTED');
  }
  const absent = bindStart({ ...request, courseMarker: null }, { exam, courseAttemptContext: context });
  t.match(absent, { rejected: 'COURSE_CONTEXT_UNTRUSTED' });
});

t.test('rule 12: a context must be complete, validated and match the student, organization and exam', async (t) => {
  for (const field of Object.keys(context)) {
    if (field !== 'examId') t.equal(verdict({ [field]: undefined }), 'COURSE_CONTEXT_INVALID', `no ${field}`);
    t.equal(verdict({ [field]: '' }), 'COURSE_CONTEXT_INVALID', `empty ${field}`);
    t.equal(verdict({ [field]: 7 }), 'COURSE_CONTEXT_INVALID', `no text ${field}`);
  }
  for (const field of ['studentId', 'organizationId', 'examId', 'validatedBy', 'validatedAt']) {
    t.equal(verdict({ [field]: 'other' }), 'COURSE_CONTEXT_INVALID', `other ${field}`);
  }
  const { organizationId: _, ...homeless } = exam;
  t.match(bindStart(request, { exam: homeless, courseAttemptContext: context }), {
    rejected: 'COURSE_CONTEXT_INVALID',
  });
});
