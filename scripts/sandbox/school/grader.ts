import type { Answer, StartQuestion } from '../../../clients/typescript/src/index.ts';

/** Millionths of a point: whole numbers, so that sums are exact. */
export type Micro = number;

/** The expected grade of an answer. `full`: the answer earned every point of its question. */
export interface Expected {
  micro: Micro;
  full: boolean;
}

const LADDER: readonly Micro[] = [0, 100_000, 250_000, 500_000, 1_000_000];
const ONE: Micro = 1_000_000;

/** Converts points to millionths, rounded. */
export function toMicro(points: number): Micro {
  return Math.round(points * ONE);
}

/**
 * Grades an answer without a line of the service's own grader, so that the two check each other. Knows only the four question types of
 * the demo's paper. An essay earns the points of its handoff, or 0 without one.
 */
export function gradeAnswer(
  question: StartQuestion,
  answer: Answer | undefined,
  handoffPoints: number | null,
): Expected {
  const worth = toMicro(question.score);
  const earned = answer === undefined ? 0 : earnedShare(question, answer, handoffPoints, worth);
  return { micro: earned, full: earned === worth };
}

function earnedShare(question: StartQuestion, answer: Answer, handoffPoints: number | null, worth: Micro): Micro {
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
