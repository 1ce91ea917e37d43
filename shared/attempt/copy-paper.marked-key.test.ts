import fc from 'fast-check';
import t from 'tap';
import { isRejection } from '#shared/kernel/errors.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import { copyPaper, type QuestionInput } from './copy-paper.ts';
import type { Question } from './question.ts';

/** Tests `isCorrect` of the options as the answer key of a question without an `answerKey`. */

type Marks = readonly (boolean | null | undefined)[];

function optionsOf(marks: Marks): QuestionInput['options'] {
  return marks.map((isCorrect, index) => ({ id: `o${index}`, ...(isCorrect === undefined ? {} : { isCorrect }) }));
}

function ask(marks: Marks, change: Partial<QuestionInput> = {}): QuestionInput {
  const options = optionsOf(marks);
  return { questionId: 'q', score: 1, type: 'MULTIPLE_CHOICE', options, scoringRule: { mode: 'EXACT' }, ...change };
}

function copied(question: QuestionInput): Question | undefined {
  const made = atOnce(copyPaper([question]));
  return isRejection(made) ? undefined : made.paper.questions[0];
}

function faults(question: QuestionInput): string[] {
  const made = atOnce(copyPaper([question]));
  return isRejection(made) ? (made.details ?? []).map(({ path }) => path) : [];
}

t.test('marked options form the key of a choice, marked statements the key of a true/false group', async (t) => {
  const picked = { correctOptionIds: ['o1'] };
  const judged = { statements: [true, false].map((value, index) => ({ statementId: `o${index}`, value })) };
  t.strictSame(copied(ask([false, true], { type: 'SINGLE_CHOICE', answerKey: null }))?.answerKey, picked);
  t.strictSame(copied(ask([false, true], { type: 'PICK_SOME' }))?.answerKey, picked);
  const group = { scoringRule: { mode: 'TRUE_FALSE_GROUP' as const } };
  t.strictSame(copied(ask([true, false], { type: 'TRUE_FALSE_GROUP', ...group }))?.answerKey, judged);
  t.strictSame(copied(ask([true, false], { type: 'JUDGE_ALL', ...group }))?.answerKey, judged);
});

t.test('the marks of options are copied to the answer key only', async () => {
  fc.assert(
    fc.property(fc.array(fc.boolean(), { minLength: 1, maxLength: 8 }), fc.boolean(), (marks, isGroup) => {
      const kind = isGroup ? { type: 'TRUE_FALSE_GROUP', scoringRule: { mode: 'EXACT' as const } } : {};
      const key = isGroup
        ? { statements: marks.map((value, index) => ({ statementId: `o${index}`, value })) }
        : { correctOptionIds: marks.flatMap((isCorrect, index) => (isCorrect ? [`o${index}`] : [])) };
      const unmarked = { options: optionsOf(marks.map(() => undefined)) };
      const marked = atOnce(copyPaper([ask(marks, kind)]));
      const keyed = atOnce(copyPaper([ask(marks, { ...kind, ...unmarked, answerKey: key })]));
      return JSON.stringify(marked) === JSON.stringify(keyed) && !JSON.stringify(marked).includes('isCorrect');
    }),
  );
});

t.test('an answerKey, even an empty one, overrides the marks of options', async (t) => {
  const answerKey = { correctOptionIds: ['o0'] };
  t.strictSame(copied(ask([false, true], { answerKey }))?.answerKey, answerKey);
  t.strictSame(faults(ask([false, true], { answerKey: {} })), ['/questions/0/answerKey/correctOptionIds']);
});

t.test('incomplete marks form no answer key', async (t) => {
  for (const marks of [[true, undefined], [null, true], [undefined, undefined], []]) {
    t.strictSame(faults(ask(marks)), ['/questions/0/answerKey/correctOptionIds'], JSON.stringify(marks));
    t.strictSame(
      copied(ask(marks, { scoringRule: { mode: 'MANUAL' } }))?.answerKey,
      {},
      'MANUAL requires no answer key',
    );
  }
});

t.test('marks that do not fit the type are refused', async (t) => {
  t.strictSame(faults(ask([false, false])), ['/questions/0/answerKey/correctOptionIds'], 'nothing is right');
  t.strictSame(faults(ask([true, true], { type: 'SINGLE_CHOICE' })), ['/questions/0/answerKey/correctOptionIds']);
  const text = ask([true], { type: 'SHORT_TEXT', scoringRule: { mode: 'SHORT_TEXT' } });
  t.strictSame(faults(text), ['/questions/0/answerKey/acceptedTexts'], 'a text has no right option');
  const ladder = ask([true, true, false], { type: 'X', scoringRule: { mode: 'THPT_TRUE_FALSE_LADDER' } });
  t.strictSame(faults(ladder), ['/questions/0/options']);
});
