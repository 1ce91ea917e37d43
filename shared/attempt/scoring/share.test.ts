import fc from 'fast-check';
import t from 'tap';
import { type AnswerContent, answerKeyOf } from '#shared/attempt/attempt.ts';
import type { Question, ScoringRule } from '#shared/attempt/question.ts';
import { totalsFaults } from '#shared/attempt/question-faults.ts';
import { markByHand, percentOf, sumExactly } from '#shared/kernel/decimal.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import * as exact from '#testing/fractions.ts';
import { sampleOptions, samplePaper, sampleQuestion } from '#testing/stored/sample-attempt.ts';
import { gradeAttempt } from './grade-attempt.ts';
import { gradeByHand, isInRange, scoreQuestion } from './score-question.ts';

const seed = Date.now() & 0x7fffffff;
const IDS = [...'abcdef'];

/** Any positive number that JSON can hold, subnormal and huge ones included; and such as people write or divide. */
const points = fc.oneof(
  fc.double({ min: Number.MIN_VALUE, max: Number.MAX_VALUE, noNaN: true }),
  fc.double({ min: 0.000_000_1, max: 100, noNaN: true }),
  fc.integer({ min: 1, max: 20_000 }).map((thousandths) => thousandths / 1_000),
  fc.tuple(fc.integer({ min: 1, max: 100 }), fc.integer({ min: 1, max: 60 })).map(([whole, parts]) => whole / parts),
);
const loss = fc.oneof(fc.constant(0), points);

/** A question, an answer to it, and the share of its points that the answer earns. */
interface Asked {
  question: Question;
  answer: AnswerContent;
  share: exact.Fraction;
}

const whole = (value: number) => exact.fractionOf(value);
const ONE = whole(1);
const ZERO = whole(0);

/** PARTIAL by its definition: `clamp(M · right / key − incorrectPenalty · wrong, minScore, M)` as a share of M. */
function partialShare(
  { maxScore, incorrectPenalty = 0, minScore = 0 }: ScoringRule,
  score: number,
  [right, wrong, key]: readonly [right: number, wrong: number, key: number],
): exact.Fraction {
  const most = whole(maxScore ?? score);
  const earned = exact.over(exact.times(most, whole(right)), whole(key));
  const kept = exact.minus(earned, exact.times(whole(incorrectPenalty), whole(wrong)));
  return exact.over(exact.smaller(exact.larger(kept, whole(minScore)), most), most);
}

const partialRule = fc
  .record({
    maxScore: fc.option(points, { nil: undefined }),
    incorrectPenalty: fc.option(loss, { nil: undefined }),
    minScore: fc.option(fc.tuple(loss, fc.constantFrom(1, -1)), { nil: undefined }),
  })
  .map(
    ({ maxScore, incorrectPenalty, minScore }): ScoringRule => ({
      mode: 'PARTIAL',
      ...(maxScore === undefined ? {} : { maxScore }),
      ...(incorrectPenalty === undefined ? {} : { incorrectPenalty }),
      ...(minScore === undefined ? {} : { minScore: minScore[0] * minScore[1] }),
    }),
  );

const choice = fc
  .record({
    score: points,
    rule: fc.oneof(partialRule, fc.constant({ mode: 'EXACT' } as const)),
    key: fc.subarray(IDS, { minLength: 1 }),
    selected: fc.subarray(IDS, { minLength: 1 }),
  })
  .map(({ score, rule, key, selected }): Asked => {
    const right = selected.filter((id) => key.includes(id)).length;
    const wrong = selected.length - right;
    const isExact = right === key.length && wrong === 0;
    return {
      question: sampleQuestion({
        type: 'MULTIPLE_CHOICE',
        score,
        options: sampleOptions(...IDS),
        scoringRule: rule,
        answerKey: { correctOptionIds: key },
      }),
      answer: { selected },
      share: rule.mode === 'EXACT' ? (isExact ? ONE : ZERO) : partialShare(rule, score, [right, wrong, key.length]),
    };
  });

const ladders = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 7, maxLength: 7 });

const group = fc
  .record({
    score: points,
    size: fc.integer({ min: 1, max: 6 }),
    marks: fc.array(fc.constantFrom(true, false, null), { minLength: 6, maxLength: 6 }),
    ladder: fc.option(ladders, { nil: undefined }),
    rule: fc.oneof(
      partialRule,
      fc.constantFrom('EXACT' as const, 'TRUE_FALSE_GROUP' as const, 'THPT_TRUE_FALSE_LADDER' as const).map((mode) => ({
        mode,
      })),
    ),
  })
  .filter(({ marks, size }) => marks.slice(0, size).some((mark) => mark !== null))
  .filter(({ rule, size, marks }) => rule.mode !== 'THPT_TRUE_FALSE_LADDER' || (size === 4 && marks.length > 0))
  .map(({ score, size, marks, ladder, rule }): Asked => {
    const ids = IDS.slice(0, size);
    const judged = marks.slice(0, size);
    const right = judged.filter((mark) => mark === true).length;
    const wrong = judged.filter((mark) => mark === false).length;
    const steps = rule.mode === 'TRUE_FALSE_GROUP' ? ladder?.slice(0, size + 1) : undefined;
    const national = ['0', '0.1', '0.25', '0.5', '1'][right] ?? '0';
    const ofLadder = size === 4 ? exact.fractionOf(national) : exact.over(whole(right), whole(size));
    const shares = {
      EXACT: right === size ? ONE : ZERO,
      PARTIAL: partialShare(rule, score, [right, wrong, size]),
      TRUE_FALSE_GROUP: steps === undefined ? ofLadder : whole(steps[right] ?? 0),
      THPT_TRUE_FALSE_LADDER: ofLadder,
    };
    return {
      question: sampleQuestion({
        type: 'TRUE_FALSE_GROUP',
        score,
        options: sampleOptions(...ids),
        scoringRule: steps === undefined ? rule : { ...rule, ladder: steps },
        answerKey: { statements: ids.map((statementId) => ({ statementId, value: true })) },
      }),
      answer: { statements: ids.map((statementId, index) => ({ statementId, value: judged[index] ?? null })) },
      share: shares[rule.mode as keyof typeof shares],
    };
  });

const text = fc
  .record({
    score: points,
    isRight: fc.boolean(),
    type: fc.constantFrom('SHORT_TEXT', 'NUMERIC', 'CLOZE'),
    mode: fc.constantFrom('EXACT' as const, 'SHORT_TEXT' as const, 'NUMERIC' as const),
    rule: partialRule,
    isPartial: fc.boolean(),
  })
  .map(({ score, isRight, type, mode, rule, isPartial }): Asked => {
    // Only a type of another name may have PARTIAL for a text.
    const scoringRule: ScoringRule = isPartial && type === 'CLOZE' ? rule : { mode };
    const counts = isRight ? ([1, 0, 1] as const) : ([0, 1, 1] as const);
    return {
      question: sampleQuestion({
        type,
        score,
        options: [],
        scoringRule,
        answerKey: { acceptedTexts: ['5'], numericAnswers: [{ value: 5 }] },
      }),
      answer: { text: isRight ? ' 5 ' : '6' },
      share: scoringRule.mode === 'PARTIAL' ? partialShare(rule, score, counts) : isRight ? ONE : ZERO,
    };
  });

const asked = fc.oneof(choice, group, text);

/** Returns the mark of a share: the score of the question for a full one, otherwise six places, and at most that score. */
function markOf({ question: { score }, share }: Asked): { isCorrect: boolean; score: number } {
  if (exact.isAtMost(ONE, share)) return { isCorrect: true, score };
  const rounded = exact.roundedTo(6, exact.times(share, whole(score)));
  return { isCorrect: false, score: Math.min(exact.numberOf(rounded), score) };
}

t.test(`every mode yields the exact mark of any positive score (seed ${seed})`, async (t) => {
  fc.assert(
    fc.property(asked, (each) => {
      fc.pre([...totalsFaults([each.question])].length === 0);
      const { isCorrect, score } = scoreQuestion(each.question, each.answer);
      const expected = markOf(each);
      return isCorrect === expected.isCorrect && score === expected.score;
    }),
    { seed, numRuns: 3_000 },
  );
  t.pass();
});

t.test(`totals and percentages of any scores are exact, finite and at most full (seed ${seed})`, async (t) => {
  fc.assert(
    fc.property(fc.array(asked, { minLength: 1, maxLength: 12 }), (all) => {
      const paper = samplePaper(...all.map(({ question }, n) => ({ ...question, questionId: `q${n}` })));
      fc.pre([...totalsFaults(paper.questions)].length === 0);
      const stored = Object.fromEntries(all.map(({ answer }, n) => [answerKeyOf(n), answer]));
      const { totals } = atOnce(gradeAttempt(paper, stored));
      const marks = all.map(markOf);
      const scores = all.map(({ question }) => question.score);
      const maxScore = sumExactly(scores);
      const percent = percentOf(totals.totalScore, maxScore) ?? Number.NaN;
      const sum = (numbers: number[]) => exact.numberOf(numbers.map(whole).reduce(exact.plus));
      const share = exact.over(exact.times(whole(totals.totalScore), whole(100)), whole(maxScore));
      return (
        maxScore === sum(scores) &&
        totals.totalScore === sum(marks.map(({ score }) => score)) &&
        totals.totalScore <= maxScore &&
        totals.correctCount === marks.filter(({ isCorrect }) => isCorrect).length &&
        Number.isFinite(percent) &&
        percent <= 100 &&
        percent === exact.numberOf(share)
      );
    }),
    { seed, numRuns: 600 },
  );
  t.pass();
});

t.test(`all right is all points and 100 percent, whatever the scores (seed ${seed})`, async (t) => {
  fc.assert(
    fc.property(fc.array(points, { minLength: 1, maxLength: 60 }), fc.boolean(), (scores, isByHand) => {
      const mode = isByHand ? 'MANUAL' : 'EXACT';
      const paper = samplePaper(...scores.map((score) => ({ score, scoringRule: { mode } as const })));
      fc.pre([...totalsFaults(paper.questions)].length === 0);
      const total = isByHand
        ? sumExactly(paper.questions.map((question) => gradeByHand(question, question.score).score))
        : atOnce(gradeAttempt(paper, Object.fromEntries(scores.map((_, n) => [answerKeyOf(n), { selected: ['a'] }]))))
            .totals.totalScore;
      const maxScore = sumExactly(scores);
      return total === maxScore && percentOf(total, maxScore) === 100;
    }),
    { seed },
  );
  for (const [count, score, total] of [
    [6, 10 / 6, 10],
    [3, 10 / 3, 10],
    [7, 10 / 7, 10],
    [3, 1.3, 3.9],
    [500, 0.02, 10],
  ] as const) {
    t.equal(sumExactly(Array.from({ length: count }, () => score)), total, `${count} times ${score}`);
  }
});

t.test(`a grade by hand is compared at six places and never above the full mark (seed ${seed})`, async (t) => {
  const share = fc.oneof(fc.double({ min: 0, max: 1, noNaN: true }), fc.constantFrom(0, 1));
  fc.assert(
    fc.property(points, share, (full, part) => {
      const score = full * part;
      const question = sampleQuestion({ score: full });
      const places = (value: number) => exact.numberOf(exact.roundedTo(6, whole(value)));
      const isFull = score > 0 && places(score) === places(full);
      const expected = isFull ? full : places(score);
      const { isCorrect, score: stored } = gradeByHand(question, score);
      return (
        isInRange(score, full) &&
        stored === expected &&
        stored <= full &&
        isCorrect === isFull &&
        markByHand(stored, full) === stored
      );
    }),
    { seed, numRuns: 1_000 },
  );
  t.pass();
});
