import { type Fraction, fraction, isAtLeast, rounded, roundedRoot } from './fraction.ts';

/** A question of a paper, as statistics see it: with its corrected key and mark. */
export interface StatisticQuestion {
  questionId: string;
  /** Its number in the authored paper. */
  orderIndex: number;
  type: string;
  /** The full mark. */
  maxScore: number;
  /** Ids of the choices, or of the statements of a true/false group; empty for a question of another kind. */
  options: readonly string[];
  /** Ids of the right choices; null for a question whose options have no such key. */
  key: readonly string[] | null;
}

/** The end of one question in one attempt. */
export interface Outcome {
  /** null: the question still waits for a grade by hand. */
  score: number | null;
  isAnswered: boolean;
  /** Options that the student chose, or statements that the student called true. */
  chosen: readonly string[];
}

export interface QuestionStatistics {
  questionId: string;
  orderIndex: number;
  type: string;
  maxScore: number;
  answered: number;
  blank: number;
  facility: number | null;
  discrimination: number | null;
  upper27: number | null;
  lower27: number | null;
  options: { id: string; count: number; upper27: number | null; lower27: number | null }[];
  flags: StatisticFlag[];
}

type StatisticFlag = 'NEGATIVE_DISCRIMINATION' | 'UNUSED_DISTRACTOR' | 'TOO_EASY' | 'TOO_HARD';

const EASY = fraction(95n, 100n);
const HARD = fraction(10n, 100n);

/** A distinct outcome of a question, with the attempts that have it. A question has few, although 100,000 attempts may hold it. */
interface Counted {
  readonly outcome: Outcome;
  /** The full mark of the question in these attempts. */
  readonly full: number;
  attempts: bigint;
  upper: bigint;
  lower: bigint;
  /** Sum of the totals of these attempts, and of their squares. */
  totals: bigint;
  squares: bigint;
}

/** One question of all papers of the exam, with its outcomes. */
export interface Column {
  question: StatisticQuestion;
  readonly key: Set<string>;
  /** false: no attempt names a key. */
  hasKey: boolean;
  readonly options: Set<string>;
  /** Place of each outcome in `counted`, by its text. */
  readonly byText: Map<string, number>;
  readonly counted: Counted[];
}

export function newColumn(question: StatisticQuestion): Column {
  return { question, key: new Set(), hasKey: false, options: new Set(), byText: new Map(), counted: [] };
}

/** Adds a question of one more paper to its column. */
export function widen(column: Column, question: StatisticQuestion): void {
  // Papers may number one question differently. The smallest number counts, whichever attempt comes first.
  if (question.orderIndex < column.question.orderIndex) column.question = question;
  for (const id of question.options) column.options.add(id);
  for (const id of question.key ?? []) column.key.add(id);
  column.hasKey ||= question.key !== null;
}

/** Returns the place of an outcome in the column, which is new if no attempt had it before. */
export function placeOf(column: Column, outcome: Outcome, full: number): number {
  const text = JSON.stringify([outcome.score, full, outcome.isAnswered, outcome.chosen]);
  const known = column.byText.get(text);
  if (known !== undefined) return known;
  const place = column.counted.length;
  column.counted.push({ outcome, full, attempts: 0n, upper: 0n, lower: 0n, totals: 0n, squares: 0n });
  column.byText.set(text, place);
  return place;
}

/** Converts a number to a whole number of equal units. */
export type Units = (value: number) => bigint;

/** Sums over the attempts in which a question is graded. The rest is the total without the question. */
interface Sums {
  attempts: bigint;
  score: bigint;
  square: bigint;
  full: bigint;
  rest: bigint;
  restSquare: bigint;
  product: bigint;
}

export function sumsOf({ counted }: Column, units: Units): Sums {
  const sums: Sums = { attempts: 0n, score: 0n, square: 0n, full: 0n, rest: 0n, restSquare: 0n, product: 0n };
  for (const { outcome, full, attempts, totals, squares } of counted) {
    if (outcome.score === null) continue;
    const score = units(outcome.score);
    const rest = totals - attempts * score;
    sums.attempts += attempts;
    sums.score += attempts * score;
    sums.square += attempts * score * score;
    sums.full += attempts * units(full);
    sums.rest += rest;
    sums.restSquare += squares - 2n * score * totals + attempts * score * score;
    sums.product += score * rest;
  }
  return sums;
}

/** Returns the statistics of one question. `isEnough`: there are enough attempts for those of groups and for correlations. */
export function statisticsOf(column: Column, units: Units, isEnough: boolean): QuestionStatistics {
  const { question } = column;
  const graded = column.counted.filter(({ outcome }) => outcome.score !== null);
  const sums = sumsOf(column, units);
  const facility = shareOf(sums.score, sums.full);
  const discrimination = isEnough ? correlationOf(sums) : null;
  const numberOf = (of: (one: Counted) => bigint) => Number(graded.reduce((sum, one) => sum + of(one), 0n));
  const groupShare = (of: (one: Counted) => bigint) => {
    if (!isEnough) return null;
    const score = graded.reduce((sum, one) => sum + of(one) * units(one.outcome.score ?? 0), 0n);
    return roundedOrNull(
      shareOf(
        score,
        graded.reduce((sum, one) => sum + of(one) * units(one.full), 0n),
      ),
    );
  };
  const options = [...column.options].map((id) => {
    const chose = (of: (one: Counted) => bigint) => numberOf((one) => (one.outcome.chosen.includes(id) ? of(one) : 0n));
    return {
      id,
      count: chose(({ attempts }) => attempts),
      upper27: isEnough ? chose(({ upper }) => upper) : null,
      lower27: isEnough ? chose(({ lower }) => lower) : null,
    };
  });
  const isUnused = column.hasKey && options.some(({ id, count }) => count === 0 && !column.key.has(id));
  const flags: StatisticFlag[] = [];
  if (discrimination?.isNegative === true) flags.push('NEGATIVE_DISCRIMINATION');
  if (isUnused) flags.push('UNUSED_DISTRACTOR');
  if (facility !== null && isAtLeast(facility, EASY)) flags.push('TOO_EASY');
  if (facility !== null && isAtLeast(HARD, facility)) flags.push('TOO_HARD');
  return {
    questionId: question.questionId,
    orderIndex: question.orderIndex,
    type: question.type,
    maxScore: question.maxScore,
    answered: numberOf(({ outcome, attempts }) => (outcome.isAnswered ? attempts : 0n)),
    blank: numberOf(({ outcome, attempts }) => (outcome.isAnswered ? 0n : attempts)),
    facility: roundedOrNull(facility),
    discrimination: discrimination?.value ?? null,
    upper27: groupShare(({ upper }) => upper),
    lower27: groupShare(({ lower }) => lower),
    options,
    flags,
  };
}

function shareOf(score: bigint, full: bigint): Fraction | null {
  return full === 0n ? null : fraction(score, full);
}

function roundedOrNull(value: Fraction | null): number | null {
  return value === null ? null : rounded(value);
}

/** Returns Pearson's correlation of the question's score with the rest of the total, or null if one of them does not vary. */
function correlationOf({ attempts, score, square, rest, restSquare, product }: Sums) {
  const together = attempts * product - score * rest;
  const spread = (attempts * square - score * score) * (attempts * restSquare - rest * rest);
  if (spread === 0n) return null;
  return { value: roundedRoot(fraction(together * together, spread), together), isNegative: together < 0n };
}
