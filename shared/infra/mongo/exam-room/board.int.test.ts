import fc from 'fast-check';
import t from 'tap';
import { attempts, whereKey } from '#infra/mongo/attempt/collections.ts';
import { openEventTails } from '#infra/mongo/attempt/event-tail.ts';
import { appendClientEvent } from '#infra/mongo/attempt/events.ts';
import { extendDeadline } from '#infra/mongo/attempt/extra-time.ts';
import { gradeWrites } from '#infra/mongo/attempt/grade.ts';
import { saveAnswer, saveAnswerWithRows } from '#infra/mongo/attempt/save-answer.ts';
import { markSubmitted } from '#infra/mongo/attempt/submit.ts';
import { INDEXES } from '#infra/mongo/schema/indexes.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { applyWrites } from '#infra/mongo/writes.ts';
import { type AttemptKey, type Away, CLIENT_EVENT_TYPES, type ClientEventType } from '#shared/attempt/attempt.ts';
import { METADATA_ROW_BYTES } from '#shared/attempt/limits.ts';
import { gradeAttempt } from '#shared/attempt/scoring/grade-attempt.ts';
import { foldAway } from '#shared/exam-room/board.ts';
import { newId } from '#shared/kernel/ids.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import { HOUR, SECOND } from '#shared/kernel/time.ts';
import { MIXED_PAPER, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';

const mongo = await openTestMongo(t);
const tails = openEventTails(mongo);
const LIMITS = { budgetMs: 5_000, now: Date.now };
const OPEN = { deadlineAt: new Date(Date.now() + HOUR) };

const LONG = JSON.stringify({ note: 'x'.repeat(METADATA_ROW_BYTES) });
const report = (attempt: AttemptKey, type: ClientEventType, metadata = '{}') =>
  appendClientEvent(mongo, tails, { attempt, type, metadata }, LIMITS);

async function read(attempt: AttemptKey) {
  const found = await attempts(mongo).findOne(whereKey(attempt));
  if (found === null) throw new Error('the attempt is gone');
  return found;
}

const writeTo = (attempt: AttemptKey) => ({
  attempt,
  paperIndex: 0,
  content: { selected: ['a'] },
  bytes: 18,
  clientVersion: 0,
  metadata: (serverVersion: number) => ({ serverVersion }),
});

t.test('the write of an event folds the times away as the rule does, in one command or a transaction', async (t) => {
  const events = fc.array(fc.tuple(fc.constantFrom(...CLIENT_EVENT_TYPES), fc.boolean()), { maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(events, async (drawn) => {
      const attempt = await storeAttempt(mongo, OPEN);
      let away: Away = { count: 0, seconds: 0, since: null };
      for (const [type, isLong] of drawn) {
        await report(attempt, type, isLong ? LONG : '{}');
        away = foldAway(away, type, new Date());
      }
      const stored = await read(attempt);
      const retries = drawn.filter(([type]) => type === 'NETWORK_RETRY').length;
      t.strictSame(
        [stored.away?.count ?? 0, stored.away?.since == null, stored.networkRetries ?? 0, stored.lastSeenAt == null],
        [away.count, away.since === null, retries, drawn.length === 0],
      );
    }),
    { numRuns: 25 },
  );
});

t.test('a time away lasts from the first hidden page to the return', async (t) => {
  const attempt = await storeAttempt(mongo, OPEN);
  await report(attempt, 'TAB_HIDDEN');
  const hidden = await read(attempt);
  t.match(hidden.away, { count: 1, seconds: 0, since: hidden.lastSeenAt });

  const since = new Date((hidden.away?.since?.getTime() ?? 0) - 20 * SECOND);
  await attempts(mongo).updateOne(whereKey(attempt), { $set: { 'away.since': since } });
  await report(attempt, 'TAB_HIDDEN');
  t.strictSame((await read(attempt)).away?.since, since, 'a second report changes nothing');

  await report(attempt, 'FOCUS_RETURNED');
  const { away, lastSeenAt } = await read(attempt);
  t.equal(away?.seconds, ((lastSeenAt?.getTime() ?? 0) - since.getTime()) / 1_000);
  t.match(away, { count: 1, since: null });
});

t.test('a page that is hidden after the submit is no time away', async (t) => {
  const attempt = await storeAttempt(mongo, OPEN);
  const wanted = {
    attempt,
    source: 'STUDENT',
    overdueByMs: null,
    maxAttempts: 3,
    now: Date.now(),
    budgetMs: 5_000,
  } as const;
  await markSubmitted(mongo, wanted);
  const submitted = await read(attempt);
  t.strictSame([submitted.lastSeenAt, submitted.boardAt], Array(2).fill(submitted.submittedAt));
  await report(attempt, 'TAB_HIDDEN');
  t.equal((await read(attempt)).away ?? null, null);
});

t.test('a submit without its student is no sign of the student', async (t) => {
  const attempt = await storeAttempt(mongo, { deadlineAt: new Date(0) });
  const wanted = {
    attempt,
    source: 'TIMEOUT',
    overdueByMs: 0,
    maxAttempts: 3,
    now: Date.now(),
    budgetMs: 5_000,
  } as const;
  t.match(await markSubmitted(mongo, wanted), { kind: 'submitted' });
  t.equal((await read(attempt)).lastSeenAt ?? null, null);
});

t.test('the command of a save notes its time, and a refused one notes nothing', async (t) => {
  const attempt = await storeAttempt(mongo, OPEN);
  t.match(await saveAnswer(mongo, writeTo(attempt)), { kind: 'saved' });
  const saved = await read(attempt);
  t.ok(saved.lastSavedAt instanceof Date);
  t.strictSame([saved.lastSavedAt, saved.lastSeenAt], Array(2).fill(saved.answers.q0?.updatedAt), 'in the same update');

  const long = { ...writeTo(attempt), content: { text: 'x'.repeat(5_000) } };
  t.match(await saveAnswerWithRows(mongo, long, LIMITS.budgetMs, LIMITS.now), { kind: 'saved' });
  const whole = await read(attempt);
  t.strictSame(whole.lastSavedAt, whole.answers.q0?.updatedAt, 'so does a save of a long text');

  const late = await storeAttempt(mongo, { deadlineAt: new Date(0) });
  t.match(await saveAnswer(mongo, writeTo(late)), { kind: 'refused' });
  t.strictSame(await read(late).then((one) => [one.lastSavedAt ?? null, one.lastSeenAt ?? null]), [null, null]);
});

t.test('a grade and more time note that the row of the board has changed', async (t) => {
  const open = await storeAttempt(mongo, OPEN);
  const by = { id: 'teacher-1', role: 'TEACHER' } as const;
  await extendDeadline(mongo, open, { _id: newId(), minutes: 5, by, reason: 'a test', at: new Date() });
  t.match(await read(open), { extraMinutes: 5, boardAt: Date });

  const attempt = await storeAttempt(mongo, { ...SUBMITTED });
  const grading = atOnce(gradeAttempt(MIXED_PAPER, attempt.answers));
  const event = { type: 'SUBMIT', metadata: '{}', createdAt: new Date(0) } as const;
  await inTransaction(mongo, 5_000, (session) => applyWrites(mongo, gradeWrites({ attempt, grading, event }), session));
  const { status, boardAt } = await read(attempt);
  t.equal(status, 'GRADED');
  t.ok(boardAt instanceof Date);
});

t.test('no index holds what a save or an event changes for the board', async (t) => {
  const changed = /^(?:away|networkRetries|lastSeenAt|lastSavedAt|boardAt)\b/;
  t.strictSame(
    INDEXES.filter(({ keys }) => Object.keys(keys).some((field) => changed.test(field))),
    [],
  );
});
