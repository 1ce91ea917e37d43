import t from 'tap';
import { newStamp, Stale } from '#infra/mongo/guarded-update.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { gradeAttempt } from '#shared/attempt/scoring/grade-attempt.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import { SECOND } from '#shared/kernel/time.ts';
import { sampleAnswer, samplePaper } from '#testing/stored/sample-attempt.ts';
import { storeAttempt } from '#testing/stored/stored-attempts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { findAttempt, textRowId } from './attempts.ts';
import { attempts, textRows } from './collections.ts';
import { storeGrade } from './grade.ts';

const mongo = await openTestMongo(t);
const essay = { type: 'ESSAY', scoringRule: { mode: 'MANUAL' } } as const;
const paper = samplePaper({}, {}, essay, essay);

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
  const grading = atOnce(gradeAttempt(paper, attempt.answers));
  const event = { type: 'SUBMIT', metadata: '{}', createdAt: new Date() } as const;
  return inTransaction(mongo, 5 * SECOND, (session) => storeGrade(mongo, { attempt, grading, event }, session));
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
