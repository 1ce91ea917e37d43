import t from 'tap';
import { samplePaper } from '#testing/stored/sample-attempt.ts';
import { gradeAttempt, totalsOf } from './grade-attempt.ts';

const paper = samplePaper(
  { score: 1.3 },
  { score: 1.3 },
  { score: 1.3 },
  { score: 2, type: 'ESSAY', options: [], answerKey: {}, scoringRule: { mode: 'ESSAY' } },
  { score: 1, type: 'ESSAY', options: [], answerKey: {}, scoringRule: { mode: 'MANUAL' } },
);

t.test('the total is an exact sum, and a pending answer is in neither count', async (t) => {
  const a = { selected: ['a'] };
  const { answers, totals } = gradeAttempt(paper, { q0: a, q1: a, q2: a, q3: { text: 'Bài làm' } });
  t.strictSame(totals, { totalScore: 3.9, correctCount: 3, wrongCount: 1, pendingManualCount: 1 });
  t.strictSame(Object.keys(answers), ['q0', 'q1', 'q2', 'q3'], 'grades of stored answers only');
  t.strictSame(answers.q3, { isCorrect: null, score: null });
});

t.test('an attempt without answers has no pending grades and only wrong answers', async (t) => {
  const { totals } = gradeAttempt(paper, {});
  t.strictSame(totals, { totalScore: 0, correctCount: 0, wrongCount: 5, pendingManualCount: 0 });
});

t.test('totals can be recomputed after a grade by hand', async (t) => {
  const { answers } = gradeAttempt(paper, { q0: { selected: ['a'] }, q3: { text: 'Bài làm' } });
  const totals = totalsOf(paper, { ...answers, q3: { isCorrect: false, score: 1.25 } });
  t.strictSame(totals, { totalScore: 2.55, correctCount: 1, wrongCount: 4, pendingManualCount: 0 });
});

t.test('practice is in neither count and adds no points, but can be pending', async (t) => {
  const mixed = samplePaper(
    { score: 1 },
    { score: 0 },
    { score: 0 },
    { score: 0 },
    { score: 0, type: 'ESSAY', options: [], answerKey: {}, scoringRule: { mode: 'MANUAL' } },
  );
  const { answers, totals } = gradeAttempt(mixed, {
    q0: { selected: ['a'] },
    q1: { selected: ['a'] },
    q2: { selected: ['b'] },
    q4: { text: 'Bài làm' },
  });
  t.strictSame(totals, { totalScore: 1, correctCount: 1, wrongCount: 0, pendingManualCount: 1 });
  t.strictSame(
    [answers.q1, answers.q2],
    [
      { isCorrect: true, score: 0 },
      { isCorrect: false, score: 0 },
    ],
    'isCorrect differs for a right and a wrong answer',
  );
  const graded = totalsOf(mixed, { ...answers, q4: { isCorrect: true, score: 0 } });
  t.strictSame(graded, { totalScore: 1, correctCount: 1, wrongCount: 0, pendingManualCount: 0 });
});

t.test('the total of an attempt may be negative', async (t) => {
  const penal = samplePaper({ scoringRule: { mode: 'PARTIAL', incorrectPenalty: 1, minScore: -1 } });
  t.equal(gradeAttempt(penal, { q0: { selected: ['b'] } }).totals.totalScore, -1);
});

t.test('grading the largest paper with the widest numbers is fast', async (t) => {
  const numericAnswers = Array.from({ length: 100 }, (_, n) => ({ value: (n + 1) * 1e-300, tolerance: 5e-324 }));
  const questions = Array.from({ length: 500 }, () => ({
    type: 'NUMERIC' as const,
    options: [],
    answerKey: { numericAnswers },
    scoringRule: { mode: 'NUMERIC' as const, toleranceType: 'RELATIVE' as const },
  }));
  const text = `${'9'.repeat(395)}e400`;
  const answers = Object.fromEntries(questions.map((_, index) => [`q${index}`, { text }]));
  const before = process.cpuUsage();
  t.equal(gradeAttempt(samplePaper(...questions), answers).totals.correctCount, 0);
  const { user } = process.cpuUsage(before);
  t.comment(`${Math.round(user / 1_000)} ms`);
  t.ok(user < 10_000_000);
});
