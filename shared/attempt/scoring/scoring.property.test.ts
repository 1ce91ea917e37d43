import fc from 'fast-check';
import t from 'tap';
import { type AnswerContent, answerKeyOf } from '#shared/attempt/attempt.ts';
import type { Paper, Question } from '#shared/attempt/question.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import { sampleOptions, sampleQuestion } from '#testing/stored/sample-attempt.ts';
import { gradeAttempt, totalsOf } from './grade-attempt.ts';
import { scoreQuestion } from './score-question.ts';

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

t.test('without a tolerance an accepted text is compared only as a text', async () => {
  fc.assert(
    fc.property(fc.integer(), fc.nat(5), (value, zeros) => {
      const question = sampleQuestion({
        type: 'SHORT_TEXT',
        options: [],
        scoringRule: { mode: 'SHORT_TEXT' },
        answerKey: { acceptedTexts: [String(value)] },
      });
      return scoreOf(question, { text: `${value}.${'0'.repeat(zeros)}` }) === 0;
    }),
  );
});

t.test('every way to write an accepted text is right, however much longer it is', async () => {
  const letter = fc.constantFrom(...'aZđếỆßİıΐᾂᾼǰẖ각ﬃ', '\u{1d15e}', '\u2f800', '\u{2f800}', ' ');
  const accepted = fc.string({ unit: letter, minLength: 1, maxLength: 12 }).filter((text) => text.trim() !== '');
  const written = fc.tuple(
    fc.constantFrom('NFC' as const, 'NFD' as const),
    fc.constantFrom('toLowerCase' as const, 'toUpperCase' as const, 'toString' as const),
    fc.constantFrom(' ', '\u3000'.repeat(1_000)),
  );
  fc.assert(
    fc.property(fc.array(accepted, { minLength: 1, maxLength: 3 }), written, (acceptedTexts, [form, inCase, space]) => {
      const question = sampleQuestion({
        type: 'SHORT_TEXT',
        options: [],
        scoringRule: { mode: 'SHORT_TEXT' },
        answerKey: { acceptedTexts },
      });
      const [text = ''] = acceptedTexts;
      // Only the small letters of these have a capital of their own.
      const typed = /[ıİ]/.test(text) ? text : text[inCase]();
      return scoreOf(question, { text: `${space}${typed.normalize(form).replaceAll(' ', space)}${space}` }) === 1;
    }),
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

function toMillionths(score: number): number {
  return Math.round(score * 1_000_000);
}
