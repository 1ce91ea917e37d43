import type { Pieces } from '#shared/kernel/pieces.ts';
import { type Fraction, fraction, placesOf, rounded, roundedRoot, unitsOf } from './fraction.ts';
import {
  type Column,
  newColumn,
  type Outcome,
  placeOf,
  type QuestionStatistics,
  type StatisticQuestion,
  statisticsOf,
  sumsOf,
  type Units,
  widen,
} from './item-statistics.ts';

/** A graded attempt. */
export interface StatisticRow {
  attemptId: string;
  totalScore: number;
  maxScore: number;
  /** Attempts of one paper name the same array. */
  questions: readonly StatisticQuestion[];
  /** In the order of `questions`; null: the question counts nowhere in this attempt. */
  outcomes: readonly (Outcome | null)[];
}

/** Statistics of a group of attempts. Each number is rounded to six places. */
export interface Statistics {
  attempts: number;
  mean: number | null;
  median: number | null;
  standardDeviation: number | null;
  alpha: number | null;
  standardError: number | null;
  histogram: { from: number; to: number; count: number }[];
  questions: QuestionStatistics[];
}

/** Attempts from which reliability and discrimination are told. With fewer, both are chance. */
const MIN_ATTEMPTS = 10;
const BINS = 10;
/** Attempts that one piece of work counts. */
const AT_ONCE = 256;

/** The columns of the questions of one paper, in its order. */
type Layout = readonly Column[];

const NOTHING = 0xffff_ffff;

/**
 * Collects graded attempts, one after the other, and computes their statistics. The best and the worst are known at the end
 * only. So it keeps of each attempt the id, the total and four bytes for each question.
 */
export class StatisticTable {
  readonly #columns = new Map<string, Column>();
  readonly #layouts = new Map<readonly StatisticQuestion[], Layout>();
  readonly #rows: { id: string; total: number; layout: Layout; from: number }[] = [];
  #codes = new Uint32Array(1_024);
  #used = 0;
  #maxScore = 0;
  #places = 0;

  add({ attemptId, totalScore, maxScore, questions, outcomes }: StatisticRow): void {
    const layout = this.#layoutOf(questions);
    this.#rows.push({ id: attemptId, total: totalScore, layout, from: this.#used });
    this.#maxScore = Math.max(this.#maxScore, maxScore);
    this.#places = Math.max(this.#places, placesOf(totalScore), placesOf(maxScore));

    if (this.#used + layout.length > this.#codes.length) {
      const larger = new Uint32Array(2 * this.#codes.length + layout.length);
      larger.set(this.#codes);
      this.#codes = larger;
    }
    for (const [index, column] of layout.entries()) {
      const outcome = outcomes[index] ?? null;
      this.#codes[this.#used] =
        outcome === null ? NOTHING : placeOf(column, outcome, questions[index]?.maxScore ?? column.question.maxScore);
      if (outcome?.score != null) this.#places = Math.max(this.#places, placesOf(outcome.score));
      this.#used += 1;
    }
  }

  #layoutOf(questions: readonly StatisticQuestion[]): Layout {
    const known = this.#layouts.get(questions);
    if (known !== undefined) return known;
    const layout = questions.map((question) => {
      const column = this.#columns.get(question.questionId) ?? newColumn(question);
      this.#columns.set(question.questionId, column);
      widen(column, question);
      this.#places = Math.max(this.#places, placesOf(question.maxScore));
      return column;
    });
    this.#layouts.set(questions, layout);
    return layout;
  }

  /** Computes the statistics of the attempts that were added. Call it once, after the last one. */
  *result(): Pieces<Statistics> {
    const rows = this.#rows;
    const totals = Float64Array.from(rows, ({ total }) => total).sort();
    const isEnough = rows.length >= MIN_ATTEMPTS;
    const ranks = isEnough ? groupsOf(rows, totals) : null;
    yield;

    const units = openUnits(this.#places);
    const sums = { total: 0n, square: 0n };
    for (const [index, { id, total, layout, from }] of rows.entries()) {
      const exact = units(total);
      const square = exact * exact;
      sums.total += exact;
      sums.square += square;
      const isUpper = ranks?.isUpper(total, id) === true;
      const isLower = ranks?.isLower(total, id) === true;
      for (const [at, column] of layout.entries()) {
        const counted = column.counted[this.#codes[from + at] ?? NOTHING];
        if (counted === undefined) continue;
        counted.attempts += 1n;
        counted.totals += exact;
        counted.squares += square;
        if (isUpper) counted.upper += 1n;
        if (isLower) counted.lower += 1n;
      }
      if (index % AT_ONCE === 0) yield;
    }

    const count = BigInt(rows.length);
    const spread = count * sums.square - sums.total * sums.total;
    const scale = 10n ** BigInt(this.#places);
    const variance = count > 1n ? fraction(spread, count * (count - 1n) * scale * scale) : null;
    const alpha = isEnough ? yield* this.#alpha(units) : null;
    const questions: QuestionStatistics[] = [];
    for (const column of inPaperOrder(this.#columns.values())) {
      questions.push(statisticsOf(column, units, isEnough));
      yield;
    }
    return {
      attempts: rows.length,
      mean: count === 0n ? null : rounded(fraction(sums.total, count * scale)),
      median: medianOf(totals, this.#places),
      standardDeviation: variance === null ? null : roundedRoot(variance),
      alpha: alpha === null ? null : rounded(alpha),
      standardError: alpha === null || variance === null ? null : errorOf(variance, alpha),
      histogram: yield* histogramOf(totals, this.#maxScore, scale, units),
      questions,
    };
  }

  /** Returns Cronbach's alpha of the questions that are graded in every attempt, or null if they do not vary or are fewer than two. */
  *#alpha(units: Units): Pieces<Fraction | null> {
    const count = BigInt(this.#rows.length);
    const common = new Set<Column>();
    let spreads = 0n;
    for (const column of this.#columns.values()) {
      const sums = sumsOf(column, units);
      if (sums.attempts !== count) continue;
      common.add(column);
      spreads += count * sums.square - sums.score * sums.score;
    }
    if (common.size < 2) return null;

    const sums = { total: 0n, square: 0n };
    for (const [index, { layout, from }] of this.#rows.entries()) {
      let total = 0n;
      for (const [at, column] of layout.entries()) {
        const score = common.has(column) ? column.counted[this.#codes[from + at] ?? NOTHING]?.outcome.score : null;
        if (score != null) total += units(score);
      }
      sums.total += total;
      sums.square += total * total;
      if (index % AT_ONCE === 0) yield;
    }
    const spread = count * sums.square - sums.total * sums.total;
    if (spread === 0n) return null;
    const items = BigInt(common.size);
    return fraction(items * (spread - spreads), (items - 1n) * spread);
  }
}

/** Returns numbers in units of 10^-places. A question has few scores and an exam few totals, so each is converted once. */
function openUnits(places: number): Units {
  const known = new Map<number, bigint>();
  return (value) => {
    const found = known.get(value);
    if (found !== undefined) return found;
    const exact = unitsOf(value, places);
    known.set(value, exact);
    return exact;
  };
}

type Ranked = { id: string; total: number };

/** Returns who is among the best and the worst ⌈27 %⌉. Of equal totals, the smaller attempt id is the better. */
function groupsOf(rows: readonly Ranked[], ascending: Float64Array) {
  const size = Math.ceil((27 * rows.length) / 100);
  const bounds = [ascending[rows.length - size] ?? 0, ascending[size - 1] ?? 0] as const;
  const [best, worst] = bounds.map((bound) => {
    const tied = rows.filter(({ total }) => total === bound).map(({ id }) => id);
    return tied.sort();
  }) as [string[], string[]];
  const above = rows.filter(({ total }) => total > bounds[0]).length;
  const below = rows.filter(({ total }) => total < bounds[1]).length;
  const upper = new Set(best.slice(0, size - above));
  const lower = new Set(worst.slice(worst.length - (size - below)));
  return {
    isUpper: (total: number, id: string) => total > bounds[0] || (total === bounds[0] && upper.has(id)),
    isLower: (total: number, id: string) => total < bounds[1] || (total === bounds[1] && lower.has(id)),
  };
}

function inPaperOrder(columns: Iterable<Column>): Column[] {
  return [...columns].sort(({ question: one }, { question: other }) => {
    return one.orderIndex - other.orderIndex || (one.questionId < other.questionId ? -1 : 1);
  });
}

/** Returns the middle total, or the mean of the two in the middle. */
function medianOf(ascending: Float64Array, places: number): number | null {
  const middle = ascending.length >> 1;
  const upper = ascending[middle];
  const lower = ascending[ascending.length % 2 === 0 ? middle - 1 : middle];
  if (upper === undefined || lower === undefined) return null;
  return rounded(fraction(unitsOf(lower, places) + unitsOf(upper, places), 2n * 10n ** BigInt(places)));
}

/** Returns the standard error of measurement, √(variance · (1 − alpha)). */
function errorOf(variance: Fraction, alpha: Fraction): number {
  return roundedRoot(fraction(variance.top * (alpha.bottom - alpha.top), variance.bottom * alpha.bottom));
}

/** Counts totals in ten equal bins of the full mark: [from, to), the last one closed. A total below 0 is in the first. */
function* histogramOf(
  totals: Float64Array,
  maxScore: number,
  scale: bigint,
  units: Units,
): Pieces<Statistics['histogram']> {
  const full = units(maxScore);
  const edgeOf = (index: number) => rounded(fraction(full * BigInt(index), BigInt(BINS) * scale));
  const bins = Array.from({ length: BINS }, (_, index) => ({ from: edgeOf(index), to: edgeOf(index + 1), count: 0 }));
  for (const [index, total] of totals.entries()) {
    const at = full === 0n ? BINS - 1 : Number((BigInt(BINS) * units(total)) / full);
    const bin = bins[total < 0 ? 0 : Math.min(at, BINS - 1)];
    if (bin !== undefined) bin.count += 1;
    if (index % AT_ONCE === 0) yield;
  }
  return bins;
}
