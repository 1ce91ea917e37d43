import t from 'tap';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import type { SubmitSource } from '#shared/attempt/attempt.ts';
import { MINUTE, SECOND } from '#shared/kernel/time.ts';
import { storeAttempt } from '#testing/stored/stored-attempts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { attempts } from './collections.ts';
import { markSubmitted } from './submit.ts';

const mongo = await openTestMongo(t);

/** Submits an attempt with these bounds, in minutes from now, and returns it as it is stored afterwards. */
async function submitOne(
  source: SubmitSource,
  bounds: { started: number; deadline: number | null; overdueByMs?: number },
) {
  const { started, deadline, overdueByMs = null } = bounds;
  const at = (minutes: number) => new Date(Date.now() + minutes * MINUTE);
  const before = await storeAttempt(mongo, {
    startedAt: at(started),
    deadlineAt: deadline === null ? null : at(deadline),
  });
  const wanted = { attempt: before, source, overdueByMs, maxAttempts: 3, now: Date.now(), budgetMs: 5 * SECOND };
  const result = await markSubmitted(mongo, wanted);
  const command = result.kind === 'submitted' ? result.command : null;
  const after = await attempts(mongo).findOne({ _id: before._id });
  if (after === null) throw new Error('the attempt is gone');
  const isNow = Math.abs((after.submittedAt?.getTime() ?? 0) - Date.now()) < MINUTE;
  return { before, after, command, isNow, wanted };
}

t.test('a student’s submit counts at its own time, also after the deadline', async (t) => {
  const inTime = await submitOne('STUDENT', { started: -10, deadline: 50 });
  t.match(inTime.after, { status: 'SUBMITTED', submittedBy: 'STUDENT' });
  t.ok(inTime.isNow);
  t.ok(Math.abs((inTime.after.durationSeconds ?? 0) - 600) <= 5);
  t.match(inTime.command, { queue: 'grading', status: 'PENDING', subject: inTime.before._id });
  t.ok((await submitOne('STUDENT', { started: -70, deadline: -10 })).isNow);
});

t.test('a TIMEOUT counts at the earlier of now and the deadline', async (t) => {
  const late = await submitOne('TIMEOUT', { started: -70, deadline: -10 });
  t.match(late.after, { submittedBy: 'TIMEOUT', submittedAt: late.before.deadlineAt, durationSeconds: 3_600 });
  t.ok((await submitOne('TIMEOUT', { started: -10, deadline: 50 })).isNow, 'a TIMEOUT before the deadline counts now');
  t.ok((await submitOne('TIMEOUT', { started: -10, deadline: null })).isNow);
});

t.test('a clock that stepped back stores no negative duration', async (t) => {
  t.equal((await submitOne('STUDENT', { started: 10, deadline: 70 })).after.durationSeconds, 0);
});

t.test('a sweep submits only overdue attempts, and each of them once', async (t) => {
  const grace = { overdueByMs: 5 * MINUTE };
  t.equal((await submitOne('TIMEOUT', { started: -60, deadline: -4, ...grace })).command, null);
  t.equal((await submitOne('TIMEOUT', { started: -60, deadline: null, ...grace })).command, null);
  const { command, wanted } = await submitOne('TIMEOUT', { started: -60, deadline: -6, ...grace });
  t.ok(command);
  t.strictSame(await markSubmitted(mongo, wanted), { kind: 'unchanged' });
  t.equal(await mailboxOf(mongo, 'grading').countDocuments({ subject: wanted.attempt._id }), 1);
});
