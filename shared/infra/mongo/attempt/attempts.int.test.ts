import type { ClientSession } from 'mongodb';
import t from 'tap';
import { newStamp, Stale } from '#infra/mongo/guarded-update.ts';
import { COMMANDS } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { applyWrites } from '#infra/mongo/writes.ts';
import type { Attempt, AttemptKey, SubmitSource } from '#shared/attempt/attempt.ts';
import { paperIndexOf, questionIdAt } from '#shared/attempt/question.ts';
import { gradeAttempt } from '#shared/attempt/scoring/grade-attempt.ts';
import { newId } from '#shared/kernel/ids.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import { HOUR, MINUTE, SECOND } from '#shared/kernel/time.ts';
import { sampleAnswer, samplePaper } from '#testing/stored/sample-attempt.ts';
import { freshAttempt, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { lateShard, tappedDb } from '#testing/stores/faulty-mongo.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { findAttempt, textRowId } from './attempts.ts';
import { attempts, releases, textRows } from './collections.ts';
import { gradeWrites } from './grade.ts';
import { openAttemptRefs } from './refs.ts';
import { newestRelease, storeRelease } from './release.ts';
import { saveAnswer, saveAnswerWithRows } from './save-answer.ts';
import { markSubmitted } from './submit.ts';

const mongo = await openTestMongo(t);

t.test('a ref finds a question by its id, whether it was read or cached', async (t) => {
  const paper = samplePaper({}, {});
  const attempt = freshAttempt();
  await attempts(mongo).insertOne(attempt);
  const id = questionIdAt(attempt, 1, { id: null });
  const [reader, starter] = [openAttemptRefs(mongo, 10), openAttemptRefs(mongo, 10)];
  starter.add(attempt);
  for (const refs of [reader, reader, starter]) {
    const ref = await refs.find(attempt);
    t.equal(ref && paperIndexOf(ref, paper, id), 1);
  }
});

t.test(
  'the first save creates version 1, each later save adds 1, and the attempt counts the stored bytes',
  async (t) => {
    const deadlineAt = new Date(Date.now() + HOUR);
    const stored = sampleAnswer({ selected: ['a'], serverVersion: 3, clientVersion: 2, bytes: 100 });
    const write = (attempt: AttemptKey) => ({
      attempt,
      paperIndex: 0,
      content: { selected: ['b'] },
      bytes: 18,
      clientVersion: 0,
      metadata: (serverVersion: number) => ({ serverVersion }),
    });
    const saves = {
      async 'one command'(attempt: AttemptKey) {
        const result = await saveAnswer(mongo, write(attempt));
        return result.kind === 'saved' ? { kind: result.kind, attempt: result.stored.whole() } : result;
      },
      'a transaction': (attempt: AttemptKey) => saveAnswerWithRows(mongo, write(attempt), 5_000, Date.now),
    };
    for (const [how, save] of Object.entries(saves)) {
      const first = await save(await storeAttempt(mongo, { answers: {}, deadlineAt }));
      t.match(first, { kind: 'saved', attempt: { answers: { q0: { serverVersion: 1 } }, answerBytes: 18 } }, how);
      const before = await storeAttempt(mongo, { answers: { q0: stored }, answerBytes: 150, deadlineAt });
      const later = await save(before);
      t.match(later, { kind: 'saved', attempt: { answers: { q0: { serverVersion: 4 } }, answerBytes: 68 } }, how);
    }
  },
);

t.test('an attempt is complete although the shard of a long text does not show it yet', async (t) => {
  const attempt = await storeAttempt(mongo);
  const answer = { ...attempt.answers.q1, text: undefined, textRef: true };
  await attempts(mongo).updateOne({ _id: attempt._id }, { $set: { 'answers.q1': answer } });
  const _id = textRowId(attempt._id, 'q1', attempt.answers.q1?.serverVersion ?? 0);
  await textRows(mongo).insertOne({ _id, attemptId: attempt._id, answerKey: 'q1', text: 'Sông Hương' });
  const late = lateShard(mongo, { [textRows(mongo).collectionName]: () => null });
  t.match(await findAttempt(late.mongo, attempt), { answers: { q1: { text: 'Sông Hương' } } });
});

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

const ESSAY = { type: 'ESSAY', scoringRule: { mode: 'MANUAL' } } as const;
const essayPaper = samplePaper({}, {}, ESSAY, ESSAY);

/** Stores a submitted attempt with two choices, a short essay, and a long one in a row of its own. Returns it as a worker loads it. */
async function loadSubmitted(): Promise<Attempt> {
  const answers = {
    q0: sampleAnswer({ selected: ['a'], clientVersion: 7 }),
    q1: sampleAnswer({ selected: ['b'] }),
    q2: sampleAnswer({ text: 'ngắn' }),
    q3: sampleAnswer({ textRef: true, serverVersion: 3 }),
  };
  const stored = await storeAttempt(mongo, { status: 'SUBMITTED', answers });
  const { _id } = stored;
  const row = { _id: textRowId(_id, 'q3', 3), attemptId: _id, answerKey: 'q3', text: 'dài'.repeat(1_000) };
  await textRows(mongo).insertOne(row);
  const loaded = await findAttempt(mongo, stored);
  if (loaded === null) throw new Error('the attempt is gone');
  return loaded;
}

function grade(attempt: Attempt): Promise<void> {
  const grading = atOnce(gradeAttempt(essayPaper, attempt.answers));
  const event = { type: 'SUBMIT', metadata: '{}', createdAt: new Date() } as const;
  return inTransaction(mongo, 5 * SECOND, (session) =>
    applyWrites(mongo, gradeWrites({ attempt, grading, event }), session),
  );
}

t.test('a grade changes the two fields of each answer and nothing else of it', async (t) => {
  const loaded = await loadSubmitted();
  const before = await attempts(mongo).findOne({ _id: loaded._id });
  await grade(loaded);
  const after = await attempts(mongo).findOne({ _id: loaded._id });
  const scores = { q0: [true, 1], q1: [false, 0], q2: [null, null], q3: [null, null] } as const;
  for (const [key, [isCorrect, score]] of Object.entries(scores)) {
    t.strictSame(after?.answers[key], { ...before?.answers[key], isCorrect, score }, key);
  }
  t.notOk('text' in (after?.answers.q3 ?? {}), 'the long text stays in its row alone');
  t.match(after, { status: 'GRADED', totalScore: 1, tally: { scored: true, graded: 2 } });
  t.strictSame((await findAttempt(mongo, loaded))?.answers.q3?.text, loaded.answers.q3?.text);
});

t.test('a grade decided before another write, such as an erasure, stores nothing', async (t) => {
  const loaded = await loadSubmitted();
  await attempts(mongo).updateOne({ _id: loaded._id }, { $set: { 'answers.q2.text': '', stamp: newStamp() } });
  const before = await attempts(mongo).findOne({ _id: loaded._id });
  await t.rejects(grade(loaded), Stale);
  t.strictSame(await attempts(mongo).findOne({ _id: loaded._id }), before);
});

const AT_ONCE = 12;
const TERMS = { maxAttempts: 10, now: Date.now(), budgetMs: 30_000 };

const releaseOf = (examId: string, sourceEventId: string = newId()) => ({
  examId,
  organizationId: null,
  releasedAt: new Date('2026-05-04T03:00:00.000Z'),
  sourceEventId,
});
const numbersOf = async (mongo: TestMongo, examId: string) =>
  (await releases(mongo).find({ examId }).toArray()).map(({ number }) => number).sort((a, b) => a - b);

t.test('concurrent releases of one exam have consecutive numbers, each with its command', async (t) => {
  const mongo = await openTestMongo(t);
  const examId = `exam-${newId()}`;
  const posted = await Promise.all(
    Array.from({ length: AT_ONCE }, () => storeRelease(mongo, releaseOf(examId), TERMS)),
  );
  const wanted = Array.from({ length: AT_ONCE }, (_, index) => index + 1);
  t.ok(posted.every(({ created }) => created));
  t.strictSame(await numbersOf(mongo, examId), wanted);
  t.strictSame(
    posted.map(({ command }) => command.body.number).sort((a, b) => a - b),
    wanted,
  );
  t.equal(await newestRelease(mongo, examId), AT_ONCE);
  t.equal(await newestRelease(mongo, `${examId}-b`), 0, 'each exam counts by itself');
});

t.test('a source event is stored once, however often and for whichever exam it arrives', async (t) => {
  const mongo = await openTestMongo(t);
  const examId = `exam-${newId()}`;
  const sent = Array.from({ length: AT_ONCE }, () => storeRelease(mongo, releaseOf(examId, 'event-1'), TERMS));
  const posted = await Promise.all(sent);
  t.equal(posted.filter(({ created }) => created).length, 1);
  t.equal(new Set(posted.map(({ command }) => command._id)).size, 1);
  const other = await storeRelease(mongo, releaseOf('exam-other', 'event-1'), TERMS);
  t.match(other, { created: false, command: { body: { examId } } });
  t.strictSame(await numbersOf(mongo, examId), [1]);
  t.equal(await releases(mongo).countDocuments({}), 1);
});

t.test('a source event is found although a plain read of its shard does not show its command yet', async (t) => {
  const mongo = await openTestMongo(t);
  const first = await storeRelease(mongo, releaseOf('exam-1', 'event-1'), TERMS);
  const db = tappedDb(mongo, (method, name, collection) => {
    if (name !== 'findOne' || collection !== COMMANDS) return undefined;
    return (...args) => {
      const { session } = (args[1] ?? {}) as { session?: ClientSession };
      return session?.operationTime === undefined ? Promise.resolve(null) : method(...args);
    };
  });
  const again = await storeRelease({ ...mongo, db }, releaseOf('exam-1', 'event-1'), TERMS);
  t.match(again, { created: false, command: { _id: first.command._id } });
});

t.test('a release whose row cannot be stored leaves no command behind', async (t) => {
  const mongo = await openTestMongo(t);
  const db = tappedDb(mongo, (_, name, into) => {
    if (name !== 'insertOne' || into !== 'attempt_releases') return undefined;
    return () => Promise.reject(new Error('killed here'));
  });
  await t.rejects(storeRelease({ ...mongo, db }, releaseOf('exam-1'), TERMS), { message: 'killed here' });
  t.equal(await mongo.db.collection(COMMANDS).countDocuments({}), 0);
  t.equal(await releases(mongo).countDocuments({}), 0);
});
