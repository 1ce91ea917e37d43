import { isDeepStrictEqual } from 'node:util';
import { asStudent } from '#scripts/sandbox/gateway.ts';
import { type Expected, gradeAnswer, toMicro } from '#scripts/sandbox/school/grader.ts';
import type { AttemptDetail, StartQuestion } from '../../../clients/typescript/src/index.ts';
import { type DemoDeps, type Sitting, THE_TEACHER } from './sitting.ts';

/** Result of reading one sitting again. */
export interface Verified {
  totalScore: number;
  maxScore: number;
  /** Number of acknowledged answers that are stored unchanged. */
  answersStored: number;
}

/**
 * Reads a released result and compares it with the record of the sitting. The result must have exactly the acknowledged answers, the
 * scores and totals of the demo's own grader, and a log of every acknowledged action.
 */
export async function verifySitting(
  deps: DemoDeps,
  sitting: Sitting,
  questions: readonly StartQuestion[],
): Promise<Verified> {
  const { attemptId, student } = sitting;
  const { attempt, scorePercent } = await deps.gateway
    .client('result')
    .readResult({ attemptId, as: asStudent(student) });
  const complain = (fault: string) => deps.complain(`${student.id}: ${fault}`);
  const answersStored = checkAnswers(sitting, attempt, questions, complain);
  checkTotals(attempt, scorePercent, expectedOf(sitting, questions), complain);
  checkLog(sitting, attempt, complain);
  return { totalScore: attempt.totalScore ?? 0, maxScore: attempt.maxScore, answersStored };
}

/** Checks that a teacher of the exam sees the answer keys, which are hidden from students. */
export async function verifyTeacherView({ gateway, complain }: DemoDeps, { attemptId }: Sitting): Promise<void> {
  const { questions } = await gateway.client('teacher reads').readAttempt({ attemptId, as: THE_TEACHER });
  if (!questions.some((question) => 'answerKey' in question)) complain('the teacher does not see the keys');
}

function expectedOf(sitting: Sitting, questions: readonly StartQuestion[]): Map<string, Expected> {
  return new Map(
    questions.map((question) => [
      question.questionId,
      gradeAnswer(question, sitting.answers.get(question.questionId), sitting.essayPoints),
    ]),
  );
}

function checkAnswers(
  sitting: Sitting,
  attempt: AttemptDetail,
  questions: readonly StartQuestion[],
  complain: (fault: string) => void,
): number {
  const expected = expectedOf(sitting, questions);
  const stored = new Map(attempt.answers.map((answer) => [answer.questionId, answer]));
  let same = 0;
  for (const [questionId, answer] of sitting.answers) {
    const found = stored.get(questionId);
    if (found === undefined) complain(`the answer to ${questionId} is lost`);
    else if (!isDeepStrictEqual(found.answer, answer)) complain(`the answer to ${questionId} has changed`);
    else same += 1;
    const grade = expected.get(questionId);
    if (found === undefined || grade === undefined) continue;
    if (found.score === null || toMicro(found.score) !== grade.micro || found.isCorrect !== grade.full) {
      complain(`${questionId} was graded ${found.score}, expected ${grade.micro / 1e6}`);
    }
  }
  if (stored.size !== sitting.answers.size)
    complain(`${stored.size} answers are stored, ${sitting.answers.size} were acknowledged`);
  if (attempt.questions.some((question) => 'answerKey' in question)) complain('the result shows the answer key');
  return same;
}

function checkTotals(
  attempt: AttemptDetail,
  scorePercent: number | null,
  expected: ReadonlyMap<string, Expected>,
  complain: (fault: string) => void,
): void {
  const grades = [...expected.values()];
  const total = grades.reduce((sum, grade) => sum + grade.micro, 0);
  const correct = grades.filter((grade) => grade.full).length;
  if (attempt.status !== 'GRADED' || !attempt.resultVisible) complain('the result is not visible');
  if (attempt.totalScore === null || toMicro(attempt.totalScore) !== total) {
    complain(`the total is ${attempt.totalScore}, expected ${total / 1e6}`);
  }
  if (attempt.correctCount !== correct || attempt.wrongCount !== grades.length - correct) {
    complain(`${attempt.correctCount} right and ${attempt.wrongCount} wrong, expected ${correct} right`);
  }
  const percent = (total / toMicro(attempt.maxScore)) * 100;
  if (scorePercent === null || Math.abs(scorePercent - percent) > 1e-9) complain(`the percentage is ${scorePercent}`);
}

/**
 * Checks that the log has START, SUBMIT, the handoff, and each acknowledged save and client event once. Unacknowledged sendings may
 * add events.
 */
function checkLog(sitting: Sitting, attempt: AttemptDetail, complain: (fault: string) => void): void {
  const least = 2 + sitting.savesAcknowledged + sitting.eventsAcknowledged + (sitting.essayPoints === null ? 0 : 1);
  const most = least + sitting.actsInDoubt;
  if (attempt.eventCount < least || attempt.eventCount > most) {
    complain(`the log has ${attempt.eventCount} events, expected ${least} to ${most}`);
  }
  const ends = attempt.events.filter((event) => event.type === 'SUBMIT' || event.type === 'TIMEOUT').length;
  if (ends !== 1) complain(`the log has ${ends} submits, expected one`);
}
