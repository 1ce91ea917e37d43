import type { Answer, StartQuestion } from '#shared/generated/attempt.ts';

/** Millionths of a point: whole numbers, so that sums are exact. */
export type Micro = number;

/** How an answer must have been graded. `full`: it earned every point of its question. */
export interface Expected {
  micro: Micro;
  full: boolean;
}

const LADDER: readonly Micro[] = [0, 100_000, 250_000, 500_000, 1_000_000];
const ONE: Micro = 1_000_000;

export function toMicro(points: number): Micro {
  return Math.round(points * ONE);
}

/**
 * The demo's own grader, on purpose a second one: it shares no line with the service's, so that the two can
 * check each other. It knows the four kinds of question that the demo's paper holds and nothing else; an essay's points
 * are what was handed off, 0 where nothing was.
 */
export function gradeAnswer(question: StartQuestion, answer: Answer | undefined, handedOff: number | null): Expected {
  const worth = toMicro(question.score);
  const earned = answer === undefined ? 0 : earnedShare(question, answer, handedOff, worth);
  return { micro: earned, full: earned === worth };
}

function earnedShare(question: StartQuestion, answer: Answer, handedOff: number | null, worth: Micro): Micro {
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
      const tolerance = toMicro(question.scoringRule.tolerance ?? 0);
      const isNear = (value: number) => given !== null && Math.abs(given - toMicro(value)) <= tolerance;
      return (key.numericAnswers ?? []).some(({ value }) => isNear(value)) ? worth : 0;
    }
    case 'ESSAY':
      return handedOff === null ? 0 : toMicro(handedOff);
    default:
      throw new Error(`the demo's paper has no ${question.type}`);
  }
}

/** A plain decimal of at most six places, comma or point, as millionths; null when the text is none. */
function microOfText(text: string): Micro | null {
  const match = /^([-\u2212]?)(\d*)(?:[.,](\d{0,6}))?$/.exec(text.trim());
  if (match === null || (match[2] ?? '') + (match[3] ?? '') === '') return null;
  const size = Number(match[2] || '0') * ONE + Number((match[3] ?? '').padEnd(6, '0'));
  return match[1] === '' ? size : -size;
}
