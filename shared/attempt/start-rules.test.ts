import fc from 'fast-check';
import t from 'tap';
import { isRejection } from '#shared/kernel/errors.ts';
import type { CourseContextInput, StartAccess, StartExam, StartLink } from './start-body.ts';
import { admitStart, bindStart, freeSeat, planStart, refuseOpenAttempt, type StartPlan } from './start-rules.ts';

const NOW = new Date('2026-05-04T03:00:00.000Z');
const BEFORE = '2026-05-04T02:59:59.999Z';
const AFTER = '2026-05-04T03:00:00.001Z';
const AT = NOW.toISOString();

const exam: StartExam = {
  id: 'exam-1',
  organizationId: 'org-1',
  title: 'Toán',
  status: 'PUBLISHED',
  deliveryMode: 'ONLINE',
  durationMinutes: 60,
  maxAttempts: 3,
  showResultMode: 'IMMEDIATE',
};
const access: StartAccess = { assigned: true, attemptLimit: null };
const link: StartLink = { id: 'link-1', mode: 'GUEST_ALLOWED', active: true };

function verdict(examFields: Partial<StartExam>, accessFields: Partial<StartAccess> = {}): string {
  const plan = planStart({ exam: { ...exam, ...examFields }, access: { ...access, ...accessFields } }, NOW);
  return isRejection(plan) ? plan.rejected : plan.kind;
}

function plan(examFields: Partial<StartExam>, accessFields: Partial<StartAccess>): StartPlan {
  const made = planStart({ exam: { ...exam, ...examFields }, access: { ...access, ...accessFields } }, NOW);
  if (isRejection(made)) throw new Error(made.rejected);
  return made;
}

t.test('rules 4 to 8 and 10 refuse a start, each with its own code', async (t) => {
  t.equal(verdict({}), 'assignment');
  t.equal(verdict({ status: 'DRAFT' }), 'EXAM_NOT_PUBLISHED');
  t.equal(verdict({ deliveryMode: 'OFFLINE' }), 'EXAM_OFFLINE');
  t.equal(verdict({ requiresAccessPassword: true }), 'EXAM_PASSWORD_REQUIRED');
  t.equal(verdict({ requiresAccessPassword: true }, { passwordVerified: true }), 'assignment');
  t.equal(verdict({}, { assigned: false }), 'EXAM_ACCESS_DENIED');
  t.equal(verdict({}, { assignmentDueAt: AT }), 'ASSIGNMENT_OVERDUE', 'at the very instant');
  t.equal(verdict({}, { assignmentDueAt: AFTER }), 'assignment');
});

t.test('a start is allowed from openTime on and before closeTime', async (t) => {
  t.equal(verdict({ openTime: AT, closeTime: AFTER }), 'assignment');
  t.equal(verdict({ openTime: AFTER }), 'EXAM_NOT_OPEN');
  t.equal(verdict({ closeTime: AT }), 'EXAM_CLOSED');
  t.equal(verdict({ openTime: null, closeTime: null }), 'assignment');
});

t.test('a start with an active link is a link start, else the assignment decides', async (t) => {
  const dead = { ...link, active: false };
  t.equal(verdict({}, { link }), 'link');
  t.equal(verdict({}, { link, assigned: false }), 'link');
  t.equal(verdict({}, { link: dead }), 'assignment');
  t.equal(verdict({}, { link: dead, assigned: false }), 'ACCESS_LINK_EXPIRED');
  t.equal(verdict({}, { link: { ...link, expiresAt: AT }, assigned: false }), 'ACCESS_LINK_EXPIRED', 'at the instant');
  t.equal(verdict({}, { link: { ...link, expiresAt: BEFORE }, assigned: false }), 'ACCESS_LINK_EXPIRED');
  t.equal(verdict({}, { link: { ...link, expiresAt: AFTER }, assigned: false }), 'link');
});

t.test('a refused start returns the first rule that fails', async (t) => {
  const closed = { closeTime: BEFORE, requiresAccessPassword: true };
  t.equal(verdict({ ...closed, status: 'DRAFT', deliveryMode: 'OFFLINE' }), 'EXAM_NOT_PUBLISHED');
  t.equal(verdict({ ...closed, deliveryMode: 'OFFLINE' }), 'EXAM_OFFLINE');
  t.equal(verdict(closed, { assigned: false }), 'EXAM_CLOSED');
  t.equal(verdict({ requiresAccessPassword: true }, { assigned: false }), 'EXAM_PASSWORD_REQUIRED');
  t.equal(verdict({ requiresAccessPassword: true }, { assignmentDueAt: BEFORE }), 'EXAM_PASSWORD_REQUIRED');
});

t.test('the smaller limit applies, in the scope of the exam or the link', async (t) => {
  t.equal(plan({}, {}).limit, 3);
  t.equal(plan({}, { attemptLimit: 2 }).limit, 2);
  t.equal(plan({ maxAttempts: null }, { attemptLimit: 5 }).limit, 5);
  t.equal(plan({ maxAttempts: null }, {}).limit, null);
  const guest = plan({}, { link: { ...link, studentLimit: 30 } });
  t.strictSame([guest.limitScope, guest.seatLimit, guest.link?.id], ['exam', 30, 'link-1']);
  const login = plan({}, { link: { ...link, mode: 'LOGIN_REQUIRED', studentLimit: 30 } });
  t.strictSame([login.limitScope, login.seatLimit], ['link', null], 'seats are for guests');
});

t.test('the due time binds assignment starts only', async (t) => {
  t.strictSame(plan({}, { assignmentDueAt: AFTER }).dueAt, new Date(AFTER));
  t.equal(plan({}, { assignmentDueAt: BEFORE, link }).dueAt, null);
});

t.test('rule 9 enforces the attempt limit and the seat limit', async (t) => {
  const base: StartPlan = { kind: 'link', link: null, limit: 2, limitScope: 'exam', seatLimit: 30, dueAt: null };
  const admit = (overrides: Partial<StartPlan>, attempts: number, seats: number, hasSeat = false) =>
    admitStart({ ...base, ...overrides }, { attempts, seats, hasSeat })?.rejected ?? 'admitted';
  t.equal(admit({}, 1, 29), 'admitted');
  t.equal(admit({}, 2, 30), 'ATTEMPT_LIMIT_REACHED');
  t.equal(admit({ limit: null }, 99, 0), 'admitted');
  t.equal(admit({}, 0, 30), 'ACCESS_LINK_FULL');
  t.equal(admit({}, 0, 30, true), 'admitted', 'a student with a seat needs no second one');
  t.equal(admit({ seatLimit: null }, 0, 99), 'admitted');
});

const open = { _id: 'attempt-1', accessLinkId: 'link-1' };
const byAssignment: Pick<StartPlan, 'link'> = { link: null };
const byLink = (id: string): Pick<StartPlan, 'link'> => ({ link: { id, mode: 'GUEST_ALLOWED' } });

t.test('a start gets the open attempt by assignment and through its own link', async (t) => {
  t.equal(refuseOpenAttempt(open, byAssignment), null);
  t.equal(refuseOpenAttempt(open, byLink('link-1')), null);
});

t.test('a start through another link is refused while an attempt is open', async (t) => {
  const refused = { rejected: 'ATTEMPT_ALREADY_OPEN', data: { attemptId: 'attempt-1' } };
  t.strictSame(refuseOpenAttempt(open, byLink('link-2')), refused);
  t.strictSame(refuseOpenAttempt({ ...open, accessLinkId: null }, byLink('link-1')), refused);
});

t.test('drawing a seat returns any free seat, or null if the link is full', async (t) => {
  const empty = { taken: [], unnumbered: 0, limit: 3 };
  t.strictSame(
    [0, 0.34, 0.999].map((random) => freeSeat(empty, random)),
    [0, 1, 2],
  );
  t.equal(freeSeat({ taken: [2, 0, 1], unnumbered: 0, limit: 3 }, 0), null);
  t.equal(freeSeat({ taken: [0, 2], unnumbered: 0, limit: 3 }, 0.9), 1);
  t.equal(freeSeat({ taken: [], unnumbered: 3, limit: 3 }, 0), null);
});

t.test('after the limit was lowered, seats above it still count', async (t) => {
  // Two of five seats are taken: 3 and 4. With limit 3, one place is left, so two concurrent draws must choose the same seat.
  const lowered = { taken: [3, 4], unnumbered: 0, limit: 3 };
  t.strictSame(
    [0, 0.5, 0.99].map((random) => freeSeat(lowered, random)),
    [0, 0, 0],
  );
  t.equal(freeSeat({ taken: [3, 4], unnumbered: 2, limit: 5 }, 0.9), 0);
});

t.test('drawing a seat is fast for a limit of billions', async (t) => {
  const seat = freeSeat({ taken: [5, 1], unnumbered: 0, limit: Number.MAX_SAFE_INTEGER }, 0.5);
  t.ok(Number.isSafeInteger(seat));
});

t.test('a link never exceeds its limit, however many students draw seats from stale reads', async () => {
  const someone = fc.record({
    reads: fc.nat(40),
    random: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
  });
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.nat(20), { maxLength: 8 }),
      fc.nat(4),
      fc.integer({ min: 1, max: 12 }),
      fc.array(someone, { maxLength: 40 }),
      (before, unnumbered, limit, comers) => {
        // Each student draws from an earlier state of the seats. The unique index refuses a taken seat.
        const history: number[][] = [before];
        const seated = new Set(before);
        for (const { reads, random } of comers) {
          const seen = history[Math.max(0, history.length - 1 - reads)] ?? before;
          const seat = freeSeat({ taken: seen, unnumbered, limit }, random);
          if (seat === null || seated.has(seat)) continue;
          seated.add(seat);
          history.push([...seated]);
        }
        return seated.size + unnumbered <= Math.max(limit, before.length + unnumbered);
      },
    ),
  );
});

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

function bindingOf(overrides: Partial<CourseContextInput>, asked: Partial<typeof request> = {}): string {
  const courseAttemptContext = { ...context, ...overrides };
  const bound = bindStart({ ...request, ...asked }, { exam, courseAttemptContext });
  return isRejection(bound) ? bound.rejected : 'bound';
}

t.test('rule 2: path and body must name the same exam', async (t) => {
  t.equal(bindingOf({}, { examId: 'exam-2' }), 'EXAM_ID_MISMATCH', 'rule 2 is checked before the course context');
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
  t.equal(bindingOf({}), 'bound');
  for (const courseMarker of ['', 'exam-service', 'Course-Service']) {
    t.equal(bindingOf({}, { courseMarker }), 'COURSE_CONTEXT_UNTRUSTED');
  }
  const absent = bindStart({ ...request, courseMarker: null }, { exam, courseAttemptContext: context });
  t.match(absent, { rejected: 'COURSE_CONTEXT_UNTRUSTED' });
});

t.test('rule 12: a context must be complete, validated and match the student, organization and exam', async (t) => {
  for (const field of Object.keys(context)) {
    if (field !== 'examId') t.equal(bindingOf({ [field]: undefined }), 'COURSE_CONTEXT_INVALID', `no ${field}`);
    t.equal(bindingOf({ [field]: '' }), 'COURSE_CONTEXT_INVALID', `empty ${field}`);
    t.equal(bindingOf({ [field]: 7 }), 'COURSE_CONTEXT_INVALID', `no text ${field}`);
  }
  for (const field of ['studentId', 'organizationId', 'examId', 'validatedBy', 'validatedAt']) {
    t.equal(bindingOf({ [field]: 'other' }), 'COURSE_CONTEXT_INVALID', `other ${field}`);
  }
  const { organizationId: _, ...homeless } = exam;
  t.match(bindStart(request, { exam: homeless, courseAttemptContext: context }), {
    rejected: 'COURSE_CONTEXT_INVALID',
  });
});
