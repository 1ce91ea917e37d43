import fc from 'fast-check';
import t from 'tap';
import { isRejection } from '#shared/kernel/errors.ts';
import { sampleAttempt } from '#testing/stored/sample-attempt.ts';
import type { AttemptStatus, ExamSnapshot, ShowResultMode } from './attempt.ts';
import { applyRelease, bindingRelease, isBoundBy, readRelease, releaseEffect, releaseFaults } from './release.ts';
import { HIDDEN_REASONS, isOwner, mayRead, type Viewer, visibilityFor } from './visibility.ts';

const now = new Date('2026-05-04T06:00:00.000Z');
const past = new Date(now.getTime() - 1);
const future = new Date(now.getTime() + 1);
const student: Viewer = { role: 'STUDENT', id: 'student-1' };

function seen(
  status: AttemptStatus,
  mode: ShowResultMode,
  closeTime: Date | null,
  released: Date | null,
  viewer = student,
) {
  const exam = { ...sampleAttempt().exam, showResultMode: mode, closeTime, resultsReleasedAt: released };
  return visibilityFor(sampleAttempt({ status, exam }), viewer, now).hiddenReason ?? 'visible';
}

t.test('the student sees the result according to its mode, close time and release time', async (t) => {
  t.equal(seen('GRADED', 'IMMEDIATE', null, null), 'visible');
  t.equal(seen('GRADED', 'AFTER_CLOSE', future, null), HIDDEN_REASONS.untilClose);
  t.equal(seen('GRADED', 'AFTER_CLOSE', now, null), 'visible', 'from closeTime on');
  t.equal(seen('GRADED', 'AFTER_CLOSE', past, null), 'visible');
  t.equal(seen('GRADED', 'AFTER_CLOSE', null, null), HIDDEN_REASONS.untilClose, 'without one only once released');
  t.equal(seen('GRADED', 'AFTER_CLOSE', future, past), 'visible');
  t.equal(seen('GRADED', 'MANUAL', past, null), HIDDEN_REASONS.untilRelease);
  t.equal(seen('GRADED', 'AFTER_CLOSE', future, future), HIDDEN_REASONS.untilClose, 'a release time ahead hides');
  t.equal(seen('GRADED', 'AFTER_CLOSE', null, future), HIDDEN_REASONS.untilClose);
  t.equal(seen('GRADED', 'AFTER_CLOSE', past, future), 'visible', 'closed is enough');
  t.equal(seen('GRADED', 'MANUAL', null, future), HIDDEN_REASONS.untilRelease);
  t.equal(seen('GRADED', 'MANUAL', past, future), HIDDEN_REASONS.untilRelease);
  t.equal(seen('GRADED', 'MANUAL', null, now), 'visible', 'from the release time on');
  t.equal(seen('GRADED', 'IMMEDIATE', null, future), 'visible');
  for (const mode of ['IMMEDIATE', 'AFTER_CLOSE', 'MANUAL'] as const) {
    t.equal(seen('IN_PROGRESS', mode, past, past), HIDDEN_REASONS.inProgress);
    t.equal(seen('SUBMITTED', mode, past, past), HIDDEN_REASONS.beingGraded);
  }
});

t.test('a student sees a grade from the instant of the close or the release, and never earlier', async () => {
  const instant = fc.option(
    fc.integer({ min: -3, max: 3 }).map((ms) => new Date(now.getTime() + ms)),
    { nil: null },
  );
  const has = (time: Date | null) => time !== null && time.getTime() <= now.getTime();
  fc.assert(
    fc.property(
      fc.constantFrom<ShowResultMode>('IMMEDIATE', 'AFTER_CLOSE', 'MANUAL'),
      instant,
      instant,
      (mode, close, released) => {
        const wanted = mode === 'IMMEDIATE' || has(released) || (mode === 'AFTER_CLOSE' && has(close));
        return (seen('GRADED', mode, close, released) === 'visible') === wanted;
      },
    ),
  );
});

t.test('the result is visible to an examiner from SUBMITTED on', async (t) => {
  const examiners: Viewer[] = [
    { role: 'ADMIN', id: 'anyone' },
    { role: 'TEACHER', id: 'teacher-1' },
    { role: 'TEACHER', id: 'teacher-2' },
  ];
  for (const viewer of examiners) {
    t.equal(seen('SUBMITTED', 'MANUAL', null, null, viewer), 'visible');
    t.equal(seen('GRADED', 'MANUAL', null, null, viewer), 'visible');
    t.equal(seen('IN_PROGRESS', 'IMMEDIATE', null, null, viewer), HIDDEN_REASONS.inProgress);
  }
});

t.test('only the owner, admins and teachers in the scope may read an attempt', async (t) => {
  const attempt = sampleAttempt();
  const readers: [Viewer, boolean][] = [
    [{ role: 'ADMIN', id: 'x' }, true],
    [student, true],
    [{ role: 'TEACHER', id: 'teacher-1' }, true],
    [{ role: 'TEACHER', id: 'teacher-2' }, true],
    [{ role: 'TEACHER', id: 'teacher-3' }, false],
    [{ role: 'TEACHER', id: 'class-1' }, false],
    [{ role: 'TEACHER', id: 'student-1' }, false],
    [{ role: 'STUDENT', id: 'student-2' }, false],
    [{ role: 'STUDENT', id: 'teacher-1' }, false],
    [{ role: 'PARENT', id: 'student-1' }, false],
    [{ role: 'SERVICE', id: 'ai-classifier-service' }, false],
  ];
  for (const [viewer, may] of readers) t.equal(mayRead(attempt, viewer), may, `${viewer.role} ${viewer.id}`);
  t.notOk(isOwner(attempt, { role: 'ADMIN', id: 'student-1' }), 'an admin never acts as the student');
});

const source = { sourceService: 'exam-service', sourceEventId: 'event-1', type: 'exam.results_released.v1' };
const flat = { ...source, examId: 'exam-1', organizationId: 'org-1', releasedAt: '2026-05-04T10:00:00+07:00' };
const analytics = {
  ...source,
  entity: 'Exam',
  entityId: 'exam-1',
  organizationId: 'org-1',
  occurredAt: '2026-05-04T03:00:00Z',
  payload: { schemaVersion: 1, status: 'PUBLISHED', examId: 'exam-1' },
};
const release = {
  examId: 'exam-1',
  organizationId: 'org-1',
  releasedAt: new Date('2026-05-04T03:00:00.000Z'),
  sourceEventId: 'event-1',
};

function faults(body: object): string[] {
  const read = readRelease(body);
  if (!isRejection(read)) return [];
  t.equal(read.rejected, 'VALIDATION_FAILED');
  return (read.details ?? []).map(({ path }) => path);
}

t.test('both styles of a release yield the same release, and other fields are dropped', async (t) => {
  t.strictSame(readRelease({ ...flat, extra: 1 }), release);
  t.strictSame(readRelease(analytics), release);
  t.strictSame(readRelease({ ...flat, organizationId: null }), { ...release, organizationId: null });
  t.strictSame(readRelease({ ...analytics, payload: null }), release);
  const later = { ...analytics.payload, releasedAt: '2026-05-04T04:00:00Z' };
  t.match(readRelease({ ...analytics, payload: later }), { releasedAt: new Date('2026-05-04T04:00:00.000Z') });
  t.match(readRelease({ ...analytics, releasedAt: '2026-05-04T05:00:00Z', payload: later }), {
    releasedAt: new Date('2026-05-04T05:00:00.000Z'),
  });
});

t.test('a release to some names each student once, and null names none', async (t) => {
  const some = (studentIds: unknown) => readRelease({ ...analytics, payload: { ...analytics.payload, studentIds } });
  t.strictSame(some(['b', 'a', 'b']), { ...release, studentIds: ['b', 'a'] });
  t.strictSame(some([]), { ...release, studentIds: [] });
  t.strictSame(some(null), release);
});

t.test('a release whose ids disagree is refused', async (t) => {
  t.strictSame(faults({ ...flat, entity: 'Exam', entityId: 'exam-2' }), ['/entityId']);
  t.strictSame(faults({ ...analytics, payload: { schemaVersion: 1, examId: 'exam-2' } }), ['/payload/examId']);
  t.strictSame(faults({ ...analytics, payload: { schemaVersion: 1, organizationId: 'org-2' } }), [
    '/payload/organizationId',
  ]);
});

t.test('a release of another version, type or sender, or of a draft, is refused', async (t) => {
  for (const schemaVersion of [2, '1', undefined, null]) {
    t.strictSame(faults({ ...analytics, payload: { schemaVersion } }), ['/payload/schemaVersion']);
  }
  t.strictSame(faults({ ...analytics, payload: { schemaVersion: 1, status: 'DRAFT' } }), ['/payload/status']);
  t.strictSame(faults({ ...flat, sourceService: 'attempt-service' }), ['/sourceService']);
  t.strictSame(faults({ ...flat, type: 'exam.results_released.v2' }), ['/type']);
  t.strictSame(faults({ ...analytics, entity: 'Course' }), ['/entity']);
});

t.test('reading a release returns every fault at once', async (t) => {
  t.strictSame(faults({}), ['/sourceService', '/type', '/sourceEventId', '/examId', '/releasedAt']);
  t.strictSame(faults({ ...flat, examId: 7, releasedAt: '2026-02-30T00:00:00Z', payload: [] }), [
    '/payload',
    '/examId',
    '/releasedAt',
  ]);
});

const stored = { ...release, number: 3 };

t.test('a release binds attempts of its exam and organization that started before it was stored', async (t) => {
  const binds = (attempt: Parameters<typeof sampleAttempt>[0], by = {}) =>
    isBoundBy(sampleAttempt(attempt), { ...stored, ...by });
  t.ok(binds({}));
  t.ok(binds({ organizationId: 'org-2' }, { organizationId: null }));
  t.notOk(binds({ organizationId: 'org-2' }));
  t.notOk(binds({ organizationId: null }));
  t.notOk(binds({ examId: 'exam-2' }));
  t.ok(binds({ releasesSeen: 2 }));
  t.notOk(binds({ releasesSeen: 3 }), 'an attempt whose start has read this release');
  t.notOk(binds({ releasesSeen: 4 }));
  t.ok(binds({ releasesSeen: 0 }, { number: 1 }));
});

t.test('each student takes the first release that names the student or all', async () => {
  const students = ['a', 'b', 'c'];
  const named = fc.option(fc.subarray(students), { nil: undefined });
  fc.assert(
    fc.property(
      fc.array(named, { maxLength: 6 }),
      fc.nat(6),
      fc.constantFrom(...students),
      (lists, seen, studentId) => {
        const all = lists.map((studentIds, index) => ({
          ...release,
          number: index + 1,
          ...(studentIds === undefined ? {} : { studentIds }),
        }));
        const attempt = sampleAttempt({ studentId, releasesSeen: seen });
        const wanted = lists.findIndex((list, index) => index >= seen && (list?.includes(studentId) ?? true));
        return (bindingRelease(attempt, all)?.number ?? 0) === wanted + 1;
      },
    ),
  );
});

t.test('an attempt without a release time takes the time of its release, once', async (t) => {
  const attempt = sampleAttempt();
  t.equal(applyRelease(attempt, null), attempt);
  const taken = applyRelease(attempt, stored);
  t.match(taken, { exam: { resultsReleasedAt: stored.releasedAt }, releaseEventId: 'event-1' });
  const later = { ...stored, number: 4, sourceEventId: 'event-2', releasedAt: new Date(0) };
  t.equal(applyRelease(taken, later), taken);
});

t.test('a release sets the time once and notifies only for a graded attempt with a hidden result', async (t) => {
  const effect = (status: AttemptStatus, exam: Partial<ExamSnapshot>) => {
    const attempt = sampleAttempt({ status, exam: { ...sampleAttempt().exam, ...exam } });
    const { notifies, setsTime } = releaseEffect(attempt, now);
    return `${setsTime ? 'sets' : 'leaves'}${notifies ? ' and notifies' : ''}`;
  };
  t.equal(effect('GRADED', { showResultMode: 'MANUAL' }), 'sets and notifies');
  t.equal(effect('GRADED', { showResultMode: 'AFTER_CLOSE', closeTime: future }), 'sets and notifies');
  t.equal(effect('GRADED', { showResultMode: 'AFTER_CLOSE', closeTime: null }), 'sets and notifies');
  t.equal(effect('GRADED', { showResultMode: 'AFTER_CLOSE', closeTime: now }), 'sets', 'already visible');
  t.equal(effect('GRADED', { showResultMode: 'IMMEDIATE' }), 'sets');
  t.equal(effect('SUBMITTED', { showResultMode: 'MANUAL' }), 'sets', 'the grading queues the rows');
  t.equal(effect('IN_PROGRESS', { showResultMode: 'MANUAL' }), 'sets');
  t.equal(effect('GRADED', { showResultMode: 'MANUAL', resultsReleasedAt: future }), 'leaves');
});

t.test('a release that failed its schema also gets the faults of its other fields', async (t) => {
  const body = {
    sourceService: 'exam-service',
    type: 'exam.results_released.v1',
    sourceEventId: 'e-1',
    examId: 'a',
    entityId: 'b',
    entity: 'Exam',
    releasedAt: 'tomorrow',
  };
  const known = [{ path: '/releasedAt', message: 'must be a timestamp' }];
  t.strictSame(
    releaseFaults(body, known).map(({ path }) => path),
    ['/entityId'],
  );
  t.strictSame(releaseFaults({ ...body, payload: 5 }, [...known, { path: '/payload', message: '' }]).length, 1);
  for (const other of [null, 5, []]) t.strictSame(releaseFaults(other, known), []);
});
