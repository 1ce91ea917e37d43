import { isDeepStrictEqual } from 'node:util';
import { asStudent } from '#scripts/sandbox/gateway.ts';
import { fitAnswer, pickAnswer } from '#shared/attempt/answer.ts';
import { type AnswerContent, answerKeyOf } from '#shared/attempt/attempt.ts';
import { copyPaper } from '#shared/attempt/copy-paper.ts';
import type { Paper } from '#shared/attempt/question.ts';
import { type Grading, gradeAttempt, totalsOf } from '#shared/attempt/scoring/grade-attempt.ts';
import { gradeByHand } from '#shared/attempt/scoring/score-question.ts';
import { percentOf } from '#shared/kernel/decimal.ts';
import { isRejection } from '#shared/kernel/errors.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import type { Answer, AttemptDetail, StartQuestion } from '../../../clients/typescript/src/index.ts';
import { type DemoDeps, differences, type Sitting, THE_TEACHER } from './sit-exam.ts';

export type Verified = Awaited<ReturnType<typeof verifySitting>>;

/**
 * Reads a released result and compares it with the record of the sitting. The result must have exactly the acknowledged answers, the
 * scores and totals that the rules of the product give to them, and a log of every acknowledged action.
 */
export async function verifySitting(deps: DemoDeps, sitting: Sitting, paper: Paper) {
  const { attemptId, student } = sitting;
  const complain = (fault: string) => deps.complain(`${student.id}: ${fault}`);
  const { attempt, scorePercent } = await deps.gateway
    .client('result')
    .readResult({ attemptId, as: asStudent(student) });
  const { answers: grades, totals } = gradeSitting(paper, sitting);
  const { pendingManualCount: _waiting, ...shown } = totals;
  const percent = percentOf(totals.totalScore, attempt.maxScore);
  const expected = { status: 'GRADED', resultVisible: true, ...shown, scorePercent: percent };
  differences("the result's", { ...attempt, scorePercent }, expected).forEach(complain);
  if (attempt.questions.some((question) => 'answerKey' in question)) complain('the result shows the answer key');
  checkLog(sitting, attempt, complain);

  const stored = new Map(attempt.answers.map((answer) => [answer.questionId, answer]));
  if (stored.size !== sitting.answers.size)
    complain(`${stored.size} answers are stored, ${sitting.answers.size} were acknowledged`);
  let answersStored = 0;
  for (const [index, { questionId }] of paper.questions.entries()) {
    const [answer, found] = [sitting.answers.get(questionId), stored.get(questionId)];
    if (answer === undefined) continue;
    if (isDeepStrictEqual(found?.answer, answer)) answersStored += 1;
    else complain(`the answer to ${questionId} ${found === undefined ? 'is lost' : 'has changed'}`);
    if (found !== undefined) differences(`${questionId}'s`, found, grades[answerKeyOf(index)] ?? {}).forEach(complain);
  }
  return { totalScore: attempt.totalScore ?? 0, maxScore: attempt.maxScore, answersStored };
}

/** Returns the paper as the attempt service copies it. */
export function copiedPaper(questions: readonly StartQuestion[]): Paper {
  const copied = atOnce(copyPaper(questions));
  if (isRejection(copied)) throw new Error(`the paper is refused: ${copied.rejected}`);
  return copied.paper;
}

/** Returns the grades of a sitting after the handoff of its essay, by the rules of the product. */
function gradeSitting(paper: Paper, { answers, essayPoints }: Sitting): Grading {
  const { answers: grades, maxScore } = gradeAnswers(paper, answers);
  for (const [index, question] of paper.questions.entries()) {
    const key = answerKeyOf(index);
    if (grades[key]?.score === null && essayPoints !== null) grades[key] = gradeByHand(question, essayPoints);
  }
  return { answers: grades, totals: totalsOf(paper, grades), maxScore };
}

export function gradeAnswers(paper: Paper, answers: ReadonlyMap<string, Answer>): Grading {
  const stored: Record<string, AnswerContent> = {};
  for (const [index, question] of paper.questions.entries()) {
    const { questionId } = question;
    const answer = answers.get(questionId);
    if (answer === undefined) continue;
    const picked = pickAnswer({ questionId, answer });
    const content = isRejection(picked) ? picked : fitAnswer(picked, question);
    if (isRejection(content)) throw new Error(`${questionId}: ${JSON.stringify(answer)} is refused`);
    stored[answerKeyOf(index)] = content;
  }
  return atOnce(gradeAttempt(paper, stored));
}

/** Checks that a teacher of the exam sees the answer keys, which are hidden from students. */
export async function verifyTeacherView({ gateway, complain }: DemoDeps, { attemptId }: Sitting): Promise<void> {
  const { questions } = await gateway.client('teacher reads').readAttempt({ attemptId, as: THE_TEACHER });
  if (!questions.some((question) => 'answerKey' in question)) complain('the teacher does not see the keys');
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
