import t from 'tap';
import { atOnce } from '#shared/kernel/pieces.ts';
import { processorTimes } from '#testing/processor-time.ts';
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
  const { answers, totals } = atOnce(gradeAttempt(paper, { q0: a, q1: a, q2: a, q3: { text: 'Bài làm' } }));
  t.strictSame(totals, { totalScore: 3.9, correctCount: 3, wrongCount: 1, pendingManualCount: 1 });
  t.strictSame(Object.keys(answers), ['q0', 'q1', 'q2', 'q3'], 'grades of stored answers only');
  t.strictSame(answers.q3, { isCorrect: null, score: null });
});

t.test('an attempt without answers has no pending grades and only wrong answers', async (t) => {
  const { totals } = atOnce(gradeAttempt(paper, {}));
  t.strictSame(totals, { totalScore: 0, correctCount: 0, wrongCount: 5, pendingManualCount: 0 });
});

t.test('totals can be recomputed after a grade by hand', async (t) => {
  const { answers } = atOnce(gradeAttempt(paper, { q0: { selected: ['a'] }, q3: { text: 'Bài làm' } }));
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
  const { answers, totals } = atOnce(
    gradeAttempt(mixed, {
      q0: { selected: ['a'] },
      q1: { selected: ['a'] },
      q2: { selected: ['b'] },
      q4: { text: 'Bài làm' },
    }),
  );
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
  t.equal(atOnce(gradeAttempt(penal, { q0: { selected: ['b'] } })).totals.totalScore, -1);
});

/** Twenty short texts with keys of the greatest length: one attempt holds no more answers of 100,000 characters. */
function shortTexts(acceptedText: string) {
  return samplePaper(
    ...Array.from({ length: 20 }, () => ({
      type: 'SHORT_TEXT' as const,
      options: [],
      scoringRule: { mode: 'SHORT_TEXT' as const },
      answerKey: { acceptedTexts: ['Hà Nội', acceptedText] },
    })),
  );
}

/** Returns an answer of the same text to each of these questions. */
function sameAnswers(text: string) {
  return Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`q${index}`, { text }]));
}

t.test('an answer with a run of combining marks is wrong, and costs no more than a harmless one', async (t) => {
  const [above, below] = ['\u0301', '\u0323'];
  const texts = [
    'Hà Nội '.repeat(14_285),
    `a${above.repeat(50_000)}${below.repeat(49_999)}`,
    `a${above.repeat(15)}${below.repeat(15)}`.repeat(3_225),
    ' '.repeat(99_999).padEnd(100_000, above),
  ];
  const paper = shortTexts('Hà Nội'.padEnd(10_000, 'i'));
  const works = texts.map((text) => () => atOnce(gradeAttempt(paper, sameAnswers(text))));
  for (const work of works) t.match(work().totals, { correctCount: 0, wrongCount: 20 });
  const [harmless = 0, ...hostile] = await processorTimes(works);
  for (const ms of hostile) t.ok(ms < 20 * harmless + 50, `${ms} ms, ${harmless} ms`);

  const marked = `a${above.repeat(31)}`;
  t.match(
    atOnce(gradeAttempt(shortTexts(marked), sameAnswers(marked))).totals,
    { correctCount: 0 },
    'it equals no key either',
  );
  const spaced = `a${above.repeat(30)}`;
  t.match(
    atOnce(gradeAttempt(shortTexts(spaced), sameAnswers(spaced))).totals,
    { correctCount: 20 },
    'thirty marks are text',
  );
});

t.test('the accepted texts of a paper are folded once, not at each grading', async (t) => {
  const longTexts = Array.from({ length: 100 }, (_, n) => `${n} ${'ẾẼ'.repeat(4_990)}`);
  const questions = [0, 1].map(() => ({
    type: 'SHORT_TEXT' as const,
    options: [],
    scoringRule: { mode: 'SHORT_TEXT' as const },
    answerKey: { acceptedTexts: longTexts },
  }));
  const answers = { q0: { text: 'Hà Nội' }, q1: { text: 'Hà Nội' } };
  const paper = samplePaper(...questions);
  const grade = (of: typeof paper) => atOnce(gradeAttempt(of, answers));
  grade(paper);
  const [again = 0, first = 0] = await processorTimes([() => grade(paper), () => grade(samplePaper(...questions))]);
  t.ok(again < first / 4, `${again} ms, ${first} ms`);
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
  t.equal(atOnce(gradeAttempt(samplePaper(...questions), answers)).totals.correctCount, 0);
  const { user } = process.cpuUsage(before);
  t.comment(`${Math.round(user / 1_000)} ms`);
  t.ok(user < 10_000_000);
});
