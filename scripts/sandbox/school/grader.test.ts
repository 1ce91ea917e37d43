import { isDeepStrictEqual } from 'node:util';
import t from 'tap';
import { answerFields, fitAnswer, pickAnswer } from '#shared/attempt/answer.ts';
import { type AnswerContent, answerKeyOf } from '#shared/attempt/attempt.ts';
import { copyPaper } from '#shared/attempt/copy-paper.ts';
import { gradeAttempt } from '#shared/attempt/scoring/grade-attempt.ts';
import { isRejection } from '#shared/kernel/errors.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import type { Answer } from '../../../clients/typescript/src/index.ts';
import { answerSheet } from './answer-sheet.ts';
import { gradeAnswer, toMicro } from './grader.ts';
import { mathsPaper } from './paper.ts';
import { schoolYear } from './students.ts';

const SEED = 'grader-test';
const questions = mathsPaper();

/** Returns a student's last answer to each question, as the service would store it. */
function finalAnswers(sheet: ReturnType<typeof answerSheet>): Map<string, Answer> {
  const last = new Map<string, Answer>();
  for (const step of sheet) if (step.kind === 'save') last.set(step.questionId, step.answer);
  return last;
}

t.test("the demo's grader and the service's agree on every answer of two hundred students", async (t) => {
  const copied = atOnce(copyPaper(questions));
  if (isRejection(copied)) throw new Error('the paper was refused');
  let differences = 0;
  for (const student of schoolYear(200, SEED)) {
    const answers = finalAnswers(answerSheet(student, questions, SEED));
    const stored: Record<string, AnswerContent> = {};
    for (const [index, question] of copied.paper.questions.entries()) {
      const answer = answers.get(question.questionId);
      if (answer === undefined) continue;
      const picked = pickAnswer({ questionId: question.questionId, answer });
      const content = isRejection(picked) ? picked : fitAnswer(picked, question);
      if (isRejection(content)) throw new Error(`${question.questionId}: ${JSON.stringify(answer)} was refused`);
      if (!isDeepStrictEqual(answerFields(content), answer)) differences += 1;
      stored[answerKeyOf(index)] = content;
    }
    const graded = atOnce(gradeAttempt(copied.paper, stored));
    for (const [index, question] of questions.entries()) {
      const theirs = graded.answers[answerKeyOf(index)];
      // An essay has no score before it is marked.
      if (theirs === undefined || theirs.score === null) continue;
      const ours = gradeAnswer(question, answers.get(question.questionId), null);
      if (ours.micro !== toMicro(theirs.score) || ours.full !== theirs.isCorrect) differences += 1;
    }
  }
  t.equal(differences, 0);
});

t.test('equal seeds make equal demo students and answer sheets', async (t) => {
  const [first, second] = [schoolYear(5, 'a'), schoolYear(5, 'a')];
  t.strictSame(first, second);
  t.strictNotSame(first, schoolYear(5, 'b'));
  const [student] = first;
  if (student === undefined) throw new Error('there is no student');
  t.strictSame(answerSheet(student, questions, 'a'), answerSheet(student, questions, 'a'));
});
