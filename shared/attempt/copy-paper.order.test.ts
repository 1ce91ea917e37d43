import fc from 'fast-check';
import t from 'tap';
import { isRejection } from '#shared/kernel/errors.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import { sampleAttempt } from '#testing/stored/sample-attempt.ts';
import { copyPaper, type QuestionInput } from './copy-paper.ts';
import { shuffledPositions } from './new-attempt.ts';
import type { Paper } from './question.ts';
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
