import t from 'tap';
import { deadlineOf, isOver, remainingSeconds } from './attempt.ts';

const at = (time: string) => new Date(`2026-05-04T${time}Z`);
const bounds = { startedAt: at('03:00:00'), durationMinutes: 60, closeTime: null, assignmentDueAt: null };

t.test('the deadline is the earliest of its bounds', async (t) => {
  t.strictSame(deadlineOf(bounds), at('04:00:00'));
  t.strictSame(deadlineOf({ ...bounds, closeTime: at('03:30:00') }), at('03:30:00'));
  t.strictSame(deadlineOf({ ...bounds, closeTime: at('05:00:00') }), at('04:00:00'));
  t.strictSame(deadlineOf({ ...bounds, closeTime: at('03:30:00'), assignmentDueAt: at('03:10:00') }), at('03:10:00'));
  t.equal(deadlineOf({ ...bounds, durationMinutes: null }), null);
  const forever = deadlineOf({ ...bounds, durationMinutes: Number.MAX_SAFE_INTEGER });
  t.equal(forever?.toISOString(), '9999-12-31T23:59:59.999Z');
});

t.test('an attempt is over at the instant of its deadline', async (t) => {
  t.notOk(isOver(at('04:00:00'), at('03:59:59.999')));
  t.ok(isOver(at('04:00:00'), at('04:00:00')));
  t.notOk(isOver(null, at('04:00:00')));
  t.equal(remainingSeconds(at('04:00:00'), at('03:59:57.500')), 2);
  t.equal(remainingSeconds(at('04:00:00'), at('05:00:00')), 0);
  t.equal(remainingSeconds(null, at('05:00:00')), null);
});
