import fc from 'fast-check';
import t from 'tap';
import { type AnswerContent, answerKeyOf } from '#shared/attempt/attempt.ts';
import type { Paper, Question } from '#shared/attempt/question.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import { processorTimes } from '#testing/processor-time.ts';
import { sampleOptions, samplePaper, sampleQuestion } from '#testing/stored/sample-attempt.ts';
import { gradeAttempt, totalsOf } from './grade-attempt.ts';
import { scoreQuestion } from './score-question.ts';

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

const IDS = [...'abcdef'];
const points = fc.integer({ min: 1, max: 20_000 }).map((thousandths) => thousandths / 1_000);
const someIds = fc.subarray(IDS);
const options = sampleOptions(...IDS);

const partial: fc.Arbitrary<Question> = fc
  .record({
    score: points,
    penalty: points,
    floor: fc.nat(3_000),
    scale: points,
    key: fc.subarray(IDS, { minLength: 1 }),
  })
  .map(({ score, penalty, floor, scale, key }) =>
    sampleQuestion({
      type: 'MULTIPLE_CHOICE',
      score,
      options,
      scoringRule: { mode: 'PARTIAL', maxScore: scale, incorrectPenalty: penalty, minScore: -floor / 1_000 },
      answerKey: { correctOptionIds: key },
    }),
  );

const toMillionths = (score: number) => Math.round(score * 1_000_000);

const selection = someIds.map((selected): AnswerContent => ({ selected }));

function scoreOf(question: Question, answer: AnswerContent): number {
  return scoreQuestion(question, answer).score ?? Number.NaN;
}

t.test('a partial score is between floor and full mark', async () => {
  fc.assert(
    fc.property(partial, selection, (question, answer) => {
      const { maxScore = 1, minScore = 0 } = question.scoringRule;
      const score = scoreOf(question, answer);
      const floor = (minScore * question.score) / maxScore;
      return score <= question.score && score >= floor - 0.000001;
    }),
  );
});

t.test('a further right option never lowers a score, and a further wrong option never raises it', async () => {
  fc.assert(
    fc.property(partial, fc.subarray(IDS, { minLength: 1 }), fc.constantFrom(...IDS), (question, selected, more) => {
      if (selected.includes(more)) return true;
      const before = scoreOf(question, { selected });
      const after = scoreOf(question, { selected: [...selected, more] });
      return question.answerKey.correctOptionIds?.includes(more) ? after >= before : after <= before;
    }),
  );
});

t.test('order and repetition of a selection do not change its score', async () => {
  const mode = fc.constantFrom('EXACT' as const, 'PARTIAL' as const);
  fc.assert(
    fc.property(partial, someIds, mode, (question, selected, scored) => {
      const asked = { ...question, scoringRule: { ...question.scoringRule, mode: scored } };
      const turned = [...selected.toReversed(), ...selected];
      return scoreOf(asked, { selected }) === scoreOf(asked, { selected: turned });
    }),
  );
});

t.test('a ladder score rises with every correct statement', async () => {
  const judgement = fc.constantFrom(true, false, null);
  const mode = fc.constantFrom('TRUE_FALSE_GROUP' as const, 'THPT_TRUE_FALSE_LADDER' as const, 'PARTIAL' as const);
  fc.assert(
    fc.property(
      points,
      mode,
      fc.array(judgement, { minLength: 4, maxLength: 4 }),
      fc.nat(3),
      (score, mode, marks, at) => {
        const key = ['a', 'b', 'c', 'd'].map((statementId) => ({ statementId, value: true }));
        const question = sampleQuestion({
          type: 'TRUE_FALSE_GROUP',
          score,
          options: sampleOptions('a', 'b', 'c', 'd'),
          scoringRule: { mode },
          answerKey: { statements: key },
        });
        const judged = (values: (boolean | null)[]) => ({
          statements: values.map((value, index) => ({ statementId: key[index]?.statementId ?? '', value })),
        });
        return scoreOf(question, judged(marks.with(at, true))) >= scoreOf(question, judged(marks));
      },
    ),
  );
});

t.test('practice changes no total, whatever its position and answer', async () => {
  const place = fc.record({
    question: partial,
    answer: fc.option(selection, { nil: undefined }),
    isPractice: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(place, { minLength: 1, maxLength: 20 }), (places) => {
      const graded = (of: typeof places) => {
        const questions = of.map(({ question, isPractice }) => (isPractice ? { ...question, score: 0 } : question));
        const stored = of.flatMap(({ answer }, index) => (answer === undefined ? [] : [[answerKeyOf(index), answer]]));
        return atOnce(gradeAttempt({ questions }, Object.fromEntries(stored)));
      };
      const { answers, totals } = graded(places);
      const practised = places.flatMap(({ isPractice }, index) => (isPractice ? [answers[answerKeyOf(index)]] : []));
      return (
        JSON.stringify(totals) === JSON.stringify(graded(places.filter(({ isPractice }) => !isPractice)).totals) &&
        practised.every((grade) => grade === undefined || grade.score === 0)
      );
    }),
  );
});

t.test('totals are the exact sum of the rounded scores and depend on the graded answers only', async () => {
  const sitting = fc.array(fc.record({ question: partial, answer: fc.option(selection, { nil: undefined }) }), {
    minLength: 1,
    maxLength: 30,
  });
  fc.assert(
    fc.property(sitting, (places) => {
      const paper: Paper = { questions: places.map(({ question }) => question) };
      const stored: Record<string, AnswerContent> = {};
      for (const [index, { answer }] of places.entries()) if (answer) stored[answerKeyOf(index)] = answer;
      const { answers, totals } = atOnce(gradeAttempt(paper, stored));
      const millionths = Object.values(answers).reduce((sum, { score }) => sum + BigInt(toMillionths(score ?? 0)), 0n);
      return (
        toMillionths(totals.totalScore) === Number(millionths) &&
        totals.correctCount + totals.wrongCount + totals.pendingManualCount === places.length &&
        JSON.stringify(totalsOf(paper, answers)) === JSON.stringify(totals)
      );
    }),
  );
});
