import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { type Away, CLIENT_EVENT_TYPES, type ScoreChange } from '#shared/attempt/attempt.ts';
import { MINUTE, SECOND } from '#shared/kernel/time.ts';
import { sampleAttempt } from '#testing/stored/sample-attempt.ts';
import { addToSummary, type BoardFacts, boardRow, emptySummary, flagsOf, foldAway } from './board.ts';
import { reopenedFields } from './rounds.ts';

const START = new Date('2026-03-02T01:00:00.000Z');
const HOURS = 300 * MINUTE;
const after = (ms: number) => new Date(START.getTime() + ms);

function factsOf(changes: Partial<BoardFacts> = {}): BoardFacts {
  return {
    _id: '019ab3c2-7d10-7c3e-9f00-5a1b2c3d4e5f',
    studentId: 'student-1',
    studentInfo: null,
    attemptNumber: 1,
    status: 'IN_PROGRESS',
    startedAt: START,
    deadlineAt: after(45 * MINUTE),
    submittedAt: null,
    tally: { questions: 40, answers: 12 },
    ...changes,
  };
}

t.test('times away are those between a hidden page and the next one shown', async () => {
  const steps = fc.array(fc.tuple(fc.constantFrom(...CLIENT_EVENT_TYPES), fc.nat(100_000)), { maxLength: 30 });
  fc.assert(
    fc.property(steps, (drawn) => {
      let at = 0;
      let away: Away = { count: 0, seconds: 0, since: null };
      // The recount walks over the events by itself: a hidden page counts at its first report, a return at the next one shown.
      let hiddenAt: number | null = null;
      let count = 0;
      let ms = 0;
      for (const [type, wait] of drawn) {
        at += wait;
        away = foldAway(away, type, after(at));
        if (type === 'TAB_HIDDEN' && hiddenAt === null) [hiddenAt, count] = [at, count + 1];
        if (type === 'FOCUS_RETURNED' && hiddenAt !== null) [hiddenAt, ms] = [null, ms + at - hiddenAt];
      }
      assert.equal(away.count, count);
      assert.equal(Math.round(away.seconds * 1_000), ms);
      assert.equal(away.since?.getTime() ?? null, hiddenAt === null ? null : after(hiddenAt).getTime());
    }),
  );
});

t.test('a reopened attempt begins with its page shown, and keeps the time away until its submit', async (t) => {
  const away = { count: 2, seconds: 1.5, since: after(60_000) };
  const attempt = sampleAttempt({ status: 'SUBMITTED', submittedAt: after(62_000), away });
  const change = { at: START, by: null, cause: 'REOPEN', totalScore: null, maxScore: 1 } as unknown as ScoreChange;
  const reopened = { ...attempt, ...reopenedFields(attempt, change, after(HOURS)) };
  t.strictSame(reopened.away, { count: 2, seconds: 3.5, since: null });
  t.match(boardRow(reopened, after(HOURS / 2)), { away: { now: false, seconds: 3 }, status: 'IN_PROGRESS' });
});

t.test('a clock that stepped back takes no time away off', async (t) => {
  const hidden = foldAway({ count: 0, seconds: 5, since: null }, 'TAB_HIDDEN', after(10_000));
  t.strictSame(foldAway(hidden, 'FOCUS_RETURNED', after(9_000)), { count: 1, seconds: 5, since: null });
});

t.test('an open attempt is silent 90 seconds after the last sign of its student, which may be its start', async (t) => {
  const flagsAt = (ms: number, changes: Partial<BoardFacts> = {}) => flagsOf(factsOf(changes), after(ms));
  t.strictSame(flagsAt(90 * SECOND - 1), []);
  t.strictSame(flagsAt(90 * SECOND), ['SILENT']);
  t.strictSame(flagsAt(120 * SECOND, { lastSeenAt: after(31 * SECOND) }), []);
  t.strictSame(flagsAt(120 * SECOND, { lastSeenAt: after(30 * SECOND) }), ['SILENT']);
  t.strictSame(flagsAt(HOURS, { status: 'SUBMITTED', submittedAt: after(MINUTE) }), []);
});

t.test('an open attempt is overdue from its deadline on, and never without one', async (t) => {
  const seen = { lastSeenAt: after(45 * MINUTE) };
  t.strictSame(flagsOf(factsOf(seen), after(45 * MINUTE - 1)), []);
  t.strictSame(flagsOf(factsOf(seen), after(45 * MINUTE)), ['OVERDUE']);
  t.strictSame(flagsOf(factsOf({ ...seen, deadlineAt: null }), after(45 * MINUTE)), []);
  t.strictSame(flagsOf(factsOf({ ...seen, status: 'GRADED' }), after(45 * MINUTE)), []);
});

t.test('three times away are often, also after the submit', async (t) => {
  const away = (count: number): Away => ({ count, seconds: 1, since: null });
  t.strictSame(flagsOf(factsOf({ away: away(2) }), START), []);
  t.strictSame(flagsOf(factsOf({ away: away(3), status: 'GRADED' }), START), ['OFTEN_AWAY']);
});

t.test('a row shows a page that is hidden now, and counts its time until the submit', async (t) => {
  const away = { count: 2, seconds: 10.4, since: after(60_000) };
  const open = boardRow(factsOf({ away, networkRetries: 3, studentInfo: '{"name":"An"}' }), after(65_700));
  t.match(open, { away: { now: true, count: 2, seconds: 16 }, flags: ['AWAY'], networkRetries: 3 });
  t.match(open, { secondsLeft: 45 * 60 - 66, answered: 12, questions: 40, studentInfo: { name: 'An' } });
  t.match(open, { lastSeenAt: START.toISOString(), lastSavedAt: null, extraMinutes: 0, voidedAt: null });
  const closed = boardRow(factsOf({ away, status: 'SUBMITTED', submittedAt: after(70_000) }), after(HOURS));
  t.match(closed, { away: { now: false, count: 2, seconds: 20 }, secondsLeft: null, flags: [] });
});

t.test('a summary counts each attempt by its status, and a voided one nowhere', async (t) => {
  const summary = emptySummary();
  addToSummary(summary, factsOf(), ['AWAY', 'SILENT', 'OVERDUE', 'OFTEN_AWAY']);
  addToSummary(summary, factsOf({ status: 'SUBMITTED' }), []);
  addToSummary(summary, factsOf({ status: 'GRADED' }), ['OFTEN_AWAY']);
  addToSummary(summary, factsOf({ status: 'GRADED', voidedAt: START }), []);
  t.strictSame(summary, { started: 3, open: 1, submitted: 1, graded: 1, away: 1, silent: 1, overdue: 1 });
});
