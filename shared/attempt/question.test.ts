import fc from 'fast-check';
import t from 'tap';
import { isRejection } from '#shared/kernel/errors.ts';
import { derivedId } from '#shared/kernel/ids.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import { sampleAttempt, samplePaper } from '#testing/stored/sample-attempt.ts';
import { copyPaper, type QuestionInput } from './copy-paper.ts';
import { shuffledPositions } from './new-attempt.ts';
import { type Paper, paperIndexOf, type Question, questionIdAt } from './question.ts';
import { redactAttempt } from './redact.ts';

function paperOf(orderIndexes: readonly (number | null | undefined)[]): Paper {
  const questions = orderIndexes.map(
    (orderIndex, place): QuestionInput => ({
      questionId: `q${place}`,
      score: 1,
      type: 'ESSAY',
      scoringRule: { mode: 'ESSAY' },
      ...(orderIndex === undefined ? {} : { orderIndex }),
    }),
  );
  const copied = atOnce(copyPaper(questions));
  if (isRejection(copied)) throw new Error(JSON.stringify(copied));
  return copied.paper;
}

const namesOf = (paper: Paper) => paper.questions.map(({ questionId }) => questionId);

function shown(paper: Paper, order: number[]) {
  const attempt = sampleAttempt({ order });
  const { questions } = redactAttempt({ attempt, paper, events: [] }, { role: 'STUDENT', id: 'student-1' }, new Date());
  return questions.map(({ orderIndex, questionId }) => [orderIndex, questionId]);
}

t.test('distinct orderIndex numbers order the paper and are shown as sent', async (t) => {
  const paper = paperOf([30, -2, 7]);
  t.strictSame(namesOf(paper), ['q1', 'q2', 'q0']);
  t.strictSame(shown(paper, [0, 1, 2]), [
    [-2, 'q1'],
    [7, 'q2'],
    [30, 'q0'],
  ]);
  const shuffled = shown(paper, [2, 0, 1]);
  t.strictSame(
    shuffled,
    [
      [-2, 'q0'],
      [7, 'q1'],
      [30, 'q2'],
    ],
    'the smallest at the first place of the attempt',
  );
});

t.test('if an orderIndex is missing or repeated, the paper keeps the order of the array', async (t) => {
  for (const numbers of [
    [3, undefined, 1],
    [3, null, 1],
    [3, 1, 1],
    [0, -0, 5],
    [undefined, undefined, undefined],
  ]) {
    const paper = paperOf(numbers);
    t.strictSame(shown(paper, [0, 1, 2]), [
      [0, 'q0'],
      [1, 'q1'],
      [2, 'q2'],
    ]);
    t.strictSame(Object.keys(paper), ['questions']);
  }
});

t.test('an attempt shows the orderIndex numbers ascending, for any numbers and any shuffle', async () => {
  const integers = fc.maxSafeInteger();
  fc.assert(
    fc.property(fc.uniqueArray(integers, { minLength: 1, maxLength: 40 }), fc.string(), (numbers, seed) => {
      const paper = paperOf(numbers);
      const ascending = numbers.toSorted((one, other) => one - other);
      const order = shuffledPositions(numbers.length, seed);
      const places = shown(paper, order);
      return (
        namesOf(paper).join() === ascending.map((number) => `q${numbers.indexOf(number)}`).join() &&
        places.map(([orderIndex]) => orderIndex).join() === ascending.join() &&
        places.map(([, name]) => name).join() === order.map((index) => namesOf(paper)[index]).join()
      );
    }),
  );
});

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

const PAPER = samplePaper({}, { id: 'given-id' }, { id: 'question-3' });
const UNNAMED = { id: null };
const ATTEMPT = {
  _id: '019f0000-0000-7000-8000-000000000001',
  seed: 'c2VlZCBvZiB0aGUgdGVzdA',
};

t.test('a question keeps the id that was sent, else gets a fixed id per attempt', async (t) => {
  t.equal(questionIdAt(ATTEMPT, 1, { id: 'given-id' }), 'given-id');
  const made = questionIdAt(ATTEMPT, 0, UNNAMED);
  t.equal(questionIdAt({ ...ATTEMPT }, 0, UNNAMED), made);
  t.not(questionIdAt({ ...ATTEMPT, _id: 'attempt-2' }, 0, UNNAMED), made);
  t.not(questionIdAt({ ...ATTEMPT, seed: 'another seed' }, 0, UNNAMED), made);
});

t.test('the ids of an attempt are distinct and follow from no fact that a student knows', async () => {
  fc.assert(
    fc.property(fc.uuid({ version: 7 }), fc.base64String({ minLength: 22 }), (_id, seed) => {
      const places = [...Array(500).keys()];
      const ids = new Set(places.map((place) => questionIdAt({ _id, seed }, place, UNNAMED)));
      return ids.size === places.length && !places.some((place) => ids.has(derivedId(_id, `question:${place}`)));
    }),
    { numRuns: 20 },
  );
});

t.test('the ids that clients know follow from the same facts in every version', async (t) => {
  t.equal(questionIdAt(ATTEMPT, 0, UNNAMED), '019f0000-0000-7f39-9f3e-1f4000e9cdaa');
});

t.test('a question is found by its questionId and by its id', async (t) => {
  t.equal(paperIndexOf(ATTEMPT, PAPER, 'question-2'), 1);
  t.equal(paperIndexOf(ATTEMPT, PAPER, 'given-id'), 1);
  t.equal(paperIndexOf(ATTEMPT, PAPER, 'question-3'), 2);
  t.equal(paperIndexOf(ATTEMPT, PAPER, questionIdAt(ATTEMPT, 0, UNNAMED)), 0);
  t.equal(paperIndexOf(ATTEMPT, PAPER, derivedId(ATTEMPT._id, 'question:0')), null, 'a guess finds no place');
  t.equal(paperIndexOf(ATTEMPT, PAPER, ''), null);
});
