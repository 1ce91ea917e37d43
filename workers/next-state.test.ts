import t from 'tap';
import { noticeOutcome } from '#workers/grade-notices/actor.ts';
import type { Outcome } from './actor.ts';
import { nextStateOf } from './next-state.ts';

const OUTBOX = { baseMs: 5_000, capMs: 3_600_000 };
const DELIVERIES = 30;

/** The waits between the deliveries of a notice whose receiver gives this answer throughout (ms). */
function waitsOf(outcome: Outcome): number[] {
  return Array.from({ length: DELIVERIES - 1 }, (_, n) => {
    const command = { queue: 'gradenotices:student', attempts: n + 1, maxAttempts: DELIVERIES } as const;
    const next = nextStateOf(command, outcome, { backoff: OUTBOX, random: 0.5 });
    if (next.to !== 'AGAIN') throw new Error(`attempt ${n + 1} is ${next.to}`);
    return next.inMs;
  });
}

const busy = (retryAfterMs: number | null) =>
  noticeOutcome({ kind: 'refused', reply: { status: 503, body: null, retryAfterMs } }, { recipients: 1 });
const PLAIN = waitsOf(busy(null));

t.test('a notice has about a day, however impatient its receiver', async (t) => {
  const hours = PLAIN.reduce((sum, wait) => sum + wait, 0) / 3_600_000;
  t.ok(hours > 15 && hours < 25, `${hours} hours`);
  t.strictSame(waitsOf(busy(1_000)), PLAIN, '30 times 503 with Retry-After: 1');
  t.strictSame(waitsOf(busy(0)), PLAIN, 'Retry-After: 0, and a date that is over');
});

t.test('a receiver may ask for more patience, up to an hour', async (t) => {
  const wanted = 10 * 60_000;
  t.strictSame(
    waitsOf(busy(wanted)),
    PLAIN.map((wait) => Math.max(wait, wanted)),
  );
  t.strictSame(new Set(waitsOf(busy(86_400_000))), new Set([3_600_000]));
});

t.test('the last attempt is death, whatever was asked for', async (t) => {
  const command = { queue: 'gradenotices:student', attempts: DELIVERIES, maxAttempts: DELIVERIES } as const;
  const next = nextStateOf(command, busy(1_000), { backoff: OUTBOX, random: 0 });
  t.strictSame(next, {
    to: 'DEAD',
    error: {
      fingerprint: 'Error: the notification service answered <n>',
      message: 'the notification service answered 503',
    },
  });
});

t.test('no answer is told with its receiver and its reason, and one reason is one cause', async (t) => {
  const refused = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:3000'), { code: 'ECONNREFUSED' });
  const failed = noticeOutcome(
    { kind: 'unanswered', error: new TypeError('fetch failed', { cause: refused }) },
    { recipients: 1 },
  );
  const late = noticeOutcome(
    { kind: 'unanswered', error: AbortSignal.abort(new DOMException('late', 'TimeoutError')).reason },
    { recipients: 1 },
  );
  const errorOf = (outcome: Outcome) => {
    const next = nextStateOf({ attempts: 1, maxAttempts: DELIVERIES }, outcome, { backoff: OUTBOX, random: 0 });
    return next.to === 'AGAIN' ? next.error : null;
  };
  const fingerprint = 'Error: the notification service gave no whole answer';
  t.strictSame(errorOf(failed), {
    fingerprint,
    message: 'the notification service gave no whole answer (ECONNREFUSED)',
  });
  t.strictSame(errorOf(late), { fingerprint, message: 'the notification service gave no whole answer (TimeoutError)' });
});
