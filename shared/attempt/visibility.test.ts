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

t.test('the student', async (t) => {
  t.equal(seen('GRADED', 'IMMEDIATE', null, null), 'visible');
  t.equal(seen('GRADED', 'AFTER_CLOSE', future, null), HIDDEN_REASONS.untilClose);
  t.equal(seen('GRADED', 'AFTER_CLOSE', now, null), 'visible', 'from closeTime on');
  t.equal(seen('GRADED', 'AFTER_CLOSE', past, null), 'visible');
  t.equal(seen('GRADED', 'AFTER_CLOSE', null, null), HIDDEN_REASONS.untilClose, 'without one only once released');
  t.equal(seen('GRADED', 'AFTER_CLOSE', future, past), 'visible');
  t.equal(seen('GRADED', 'MANUAL', past, null), HIDDEN_REASONS.untilRelease);
  t.equal(seen('GRADED', 'MANUAL', null, future), 'visible', 'released, whatever the value');
  for (const mode of ['IMMEDIATE', 'AFTER_CLOSE', 'MANUAL'] as const) {
    t.equal(seen('IN_PROGRESS', mode, past, past), HIDDEN_REASONS.inProgress);
    t.equal(seen('SUBMITTED', mode, past, past), HIDDEN_REASONS.beingGraded);
  }
});

t.test('an examiner is told nothing is hidden from SUBMITTED on', async (t) => {
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

t.test('who may read', async (t) => {
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
