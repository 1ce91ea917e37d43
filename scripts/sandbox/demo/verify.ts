import { isDeepStrictEqual } from 'node:util';
import { asStudent } from '#scripts/sandbox/gateway.ts';
import type { Answer, AttemptDetail, StartQuestion } from '../../../clients/typescript/src/index.ts';
import { type DemoDeps, differences, type Sitting, THE_TEACHER } from './sit-exam.ts';

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
  const complain = (fault: string) => deps.complain(`${student.id}: ${fault}`);
  const { attempt, scorePercent } = await deps.gateway
    .client('result')
    .readResult({ attemptId, as: asStudent(student) });
  const grades = questions.map((question) => ({
    question,
    ...gradeAnswer(question, sitting.answers.get(question.questionId), sitting.essayPoints),
  }));
  const micro = grades.reduce((sum, grade) => sum + grade.micro, 0);
  const correctCount = grades.filter(({ full }) => full).length;
  const expected = {
    status: 'GRADED',
    resultVisible: true,
    totalScore: micro / ONE,
    correctCount,
    wrongCount: grades.length - correctCount,
    scorePercent: rounded((micro / toMicro(attempt.maxScore)) * 100),
  };
  const shown = { ...attempt, totalScore: rounded(attempt.totalScore), scorePercent: rounded(scorePercent) };
  differences("the result's", shown, expected).forEach(complain);
  if (attempt.questions.some((question) => 'answerKey' in question)) complain('the result shows the answer key');
  checkLog(sitting, attempt, complain);

  const stored = new Map(attempt.answers.map((answer) => [answer.questionId, answer]));
  if (stored.size !== sitting.answers.size)
    complain(`${stored.size} answers are stored, ${sitting.answers.size} were acknowledged`);
  let answersStored = 0;
  for (const { question, micro: points, full } of grades) {
    const answer = sitting.answers.get(question.questionId);
    if (answer === undefined) continue;
    const { questionId } = question;
    const found = stored.get(questionId);
    if (isDeepStrictEqual(found?.answer, answer)) answersStored += 1;
    else complain(`the answer to ${questionId} ${found === undefined ? 'is lost' : 'has changed'}`);
    if (found === undefined) continue;
    const graded = { score: rounded(found.score), isCorrect: found.isCorrect };
    differences(`${questionId}'s`, graded, { score: points / ONE, isCorrect: full }).forEach(complain);
  }
  return { totalScore: attempt.totalScore ?? 0, maxScore: attempt.maxScore, answersStored };
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

/** Millionths of a point: whole numbers, so that sums are exact. */
type Micro = number;

const LADDER: readonly Micro[] = [0, 100_000, 250_000, 500_000, 1_000_000];
const ONE: Micro = 1_000_000;

/** Converts points to millionths, rounded. */
export function toMicro(points: number): Micro {
  return Math.round(points * ONE);
}

/** Returns points without what is smaller than a millionth. */
function rounded(points: number | null): number | null {
  return points === null ? null : toMicro(points) / ONE;
}

/**
 * Grades an answer without a line of the service's own grader, so that the two check each other. Knows only the four question types of
 * the demo's paper. An essay earns the points of its handoff, or 0 without one. `full`: the answer earned every point of its question.
 */
export function gradeAnswer(
  question: StartQuestion,
  answer: Answer | undefined,
  handoffPoints: number | null,
): { micro: Micro; full: boolean } {
  const worth = toMicro(question.score);
  const micro = answer === undefined ? 0 : earnedBy(question, answer, { handoffPoints, worth });
  return { micro, full: micro === worth };
}

function earnedBy(
  question: StartQuestion,
  answer: Answer,
  { handoffPoints, worth }: { handoffPoints: number | null; worth: Micro },
): Micro {
  const key = question.answerKey ?? {};
  switch (question.type) {
    case 'SINGLE_CHOICE':
      return answer.selectedOptionIds?.join() === key.correctOptionIds?.join() ? worth : 0;
    case 'TRUE_FALSE_GROUP': {
      const truth = new Map((key.statements ?? []).map(({ statementId, value }) => [statementId, value]));
      const right = (answer.statementAnswers ?? []).filter((given) => given.value === truth.get(given.statementId));
      return Math.round(((LADDER[right.length] ?? 0) * worth) / ONE);
    }
    case 'NUMERIC': {
      const given = microOfText(answer.textAnswer ?? '');
      const tolerance = toMicro(question.scoringRule?.tolerance ?? 0);
      const isNear = (value: number) => given !== null && Math.abs(given - toMicro(value)) <= tolerance;
      return (key.numericAnswers ?? []).some(({ value }) => isNear(value)) ? worth : 0;
    }
    case 'ESSAY':
      return handoffPoints === null ? 0 : toMicro(handoffPoints);
    default:
      throw new Error(`the demo's paper has no ${question.type}`);
  }
}

/** Returns a decimal of at most six places, with comma or point, in millionths; null for any other text. */
function microOfText(text: string): Micro | null {
  const match = /^([-\u2212]?)(\d*)(?:[.,](\d{0,6}))?$/.exec(text.trim());
  if (match === null || (match[2] ?? '') + (match[3] ?? '') === '') return null;
  const size = Number(match[2] || '0') * ONE + Number((match[3] ?? '').padEnd(6, '0'));
  return match[1] === '' ? size : -size;
}
