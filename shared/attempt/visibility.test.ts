import fc from 'fast-check';
import t from 'tap';
import { sampleAttempt } from '#testing/stored/sample-attempt.ts';
import type { AttemptStatus, ShowResultMode } from './attempt.ts';
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
