import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { atOnce } from '#shared/kernel/pieces.ts';
import type { Outcome, StatisticQuestion } from './item-statistics.ts';
import { type StatisticRow, type Statistics, StatisticTable } from './statistics.ts';

function statisticsOf(rows: readonly StatisticRow[]): Statistics {
  const table = new StatisticTable();
  for (const row of rows) table.add(row);
  return atOnce(table.result());
}

/** Fractions of the recount: of big integers, reduced to lowest terms, and rounded by long division. */
interface Q {
  n: bigint;
  d: bigint;
}
const gcd = (a: bigint, b: bigint): bigint => (b === 0n ? (a < 0n ? -a : a) : gcd(b, a % b));
function q(n: bigint | number, d: bigint | number = 1n): Q {
  const [top, bottom] = [BigInt(n), BigInt(d)];
  const by = gcd(top, bottom) * (bottom < 0n ? -1n : 1n) || 1n;
  return { n: top / by, d: bottom / by };
}
const plus = (a: Q, b: Q) => q(a.n * b.d + b.n * a.d, a.d * b.d);
const minus = (a: Q, b: Q) => plus(a, q(-b.n, b.d));
const times = (a: Q, b: Q) => q(a.n * b.n, a.d * b.d);
const over = (a: Q, b: Q) => q(a.n * b.d, a.d * b.n);
const sumOf = (all: readonly Q[]) => all.reduce(plus, q(0));
const meanOf = (all: readonly Q[]) => over(sumOf(all), q(all.length));
const isLess = (a: Q, b: Q) => a.n * b.d < b.n * a.d;

/** Returns the exact fraction of a number as JSON writes it. */
function exact(value: number): Q {
  const [digits = '', power = '0'] = String(value).split('e');
  const [whole = '', part = ''] = digits.split('.');
  const exponent = Number(power) - part.length;
  const top = BigInt(whole + part);
  return exponent >= 0 ? q(top * 10n ** BigInt(exponent)) : q(top, 10n ** BigInt(-exponent));
}

function at6({ n, d }: Q): number {
  const size = n < 0n ? -n : n;
  const cut = (size * 10n ** 7n) / d;
  const millionths = cut / 10n + (cut % 10n >= 5n ? 1n : 0n);
  return millionths === 0n ? 0 : (Number(millionths) / 1e6) * (n < 0n ? -1 : 1);
}

/** Returns the square root at six places, found by bisection. */
function rootAt6(value: Q): number {
  let low = 0n;
  let high = 10n ** 30n;
  // The largest number of half millionths whose square is not above the value.
  while (high - low > 1n) {
    const middle = (low + high) / 2n;
    const half = q(middle, 2_000_000n);
    if (isLess(value, times(half, half))) high = middle;
    else low = middle;
  }
  return Number((low + 1n) / 2n) / 1e6;
}

/** The mean of products of the deviations from the means: the definition, in two passes. */
function covariance(one: readonly Q[], other: readonly Q[]): Q {
  const [a, b] = [meanOf(one), meanOf(other)];
  return meanOf(one.map((value, at) => times(minus(value, a), minus(other[at] ?? q(0), b))));
}

/** Recounts from the rows, as a reader of the formulas would. */
function recount(rows: readonly StatisticRow[]): Statistics {
  const n = rows.length;
  const totals = rows.map((row) => exact(row.totalScore));
  const variance = n > 1 ? times(covariance(totals, totals), q(n, n - 1)) : null;
  const ranked = [...rows].sort((a, b) => b.totalScore - a.totalScore || (a.attemptId < b.attemptId ? -1 : 1));
  const size = Math.ceil(0.27 * n - 1e-9);
  const groups = [new Set(ranked.slice(0, size)), new Set(ranked.slice(n - size))] as const;
  const isEnough = n >= 10;
  const full = rows.reduce((most, row) => Math.max(most, row.maxScore), 0);
  const ids = [...new Set(rows.flatMap(({ questions }) => questions.map(({ questionId }) => questionId)))];
  const items = ids.map((id) => {
    const of = (row: StatisticRow) => {
      const at = row.questions.findIndex(({ questionId }) => questionId === id);
      const outcome = at < 0 ? null : row.outcomes[at];
      return outcome == null || outcome.score === null ? null : { ...outcome, question: row.questions[at] };
    };
    const held = rows.flatMap(({ questions }) => questions.filter(({ questionId }) => questionId === id));
    const question = held.reduce((least, one) => (one.orderIndex < least.orderIndex ? one : least));
    const graded = rows.flatMap((row) => {
      const one = of(row);
      return one === null ? [] : [{ row, ...one, score: exact(one.score ?? 0) }];
    });
    return { id, held, question, graded, of };
  });

  const common = items.filter(({ graded }) => graded.length === n);
  let alpha: Q | null = null;
  if (isEnough && common.length > 1) {
    const sums = rows.map((row) => sumOf(common.map(({ of }) => exact(of(row)?.score ?? 0))));
    const whole = covariance(sums, sums);
    const parts = sumOf(common.map(({ graded }) => covariance(...twice(graded.map(({ score }) => score)))));
    const k = common.length;
    alpha = whole.n === 0n ? null : times(q(k, k - 1), minus(q(1), over(parts, whole)));
  }

  const sorted = [...totals].sort((a, b) => (isLess(a, b) ? -1 : isLess(b, a) ? 1 : 0));
  const middle = [sorted[Math.ceil(n / 2) - 1], sorted[Math.floor(n / 2)]].flatMap((one) => one ?? []);
  const bin = (value: Q) => {
    for (let at = 9; at > 0; at -= 1) if (!isLess(value, times(exact(full), q(at, 10)))) return at;
    return 0;
  };
  return {
    attempts: n,
    mean: n === 0 ? null : at6(meanOf(totals)),
    median: n === 0 ? null : at6(meanOf(middle)),
    standardDeviation: variance === null ? null : rootAt6(variance),
    alpha: alpha === null ? null : at6(alpha),
    standardError: alpha === null || variance === null ? null : rootAt6(times(variance, minus(q(1), alpha))),
    histogram: Array.from({ length: 10 }, (_, at) => ({
      from: at6(times(exact(full), q(at, 10))),
      to: at6(times(exact(full), q(at + 1, 10))),
      count: totals.filter((total) => bin(total) === at).length,
    })),
    questions: items
      .sort((a, b) => a.question.orderIndex - b.question.orderIndex || (a.id < b.id ? -1 : 1))
      .map(({ held, question, graded }) => {
        const facilityOf = (some: typeof graded) => {
          const marks = sumOf(some.map((one) => exact(one.question?.maxScore ?? 0)));
          return marks.n === 0n ? null : over(sumOf(some.map(({ score }) => score)), marks);
        };
        const group = (at: 0 | 1) => {
          const value = isEnough ? facilityOf(graded.filter(({ row }) => groups[at].has(row))) : null;
          return value === null ? null : at6(value);
        };
        const scores = graded.map(({ score }) => score);
        const rests = graded.map(({ row, score }) => minus(exact(row.totalScore), score));
        const together = graded.length === 0 ? q(0) : covariance(scores, rests);
        const spread = graded.length === 0 ? q(0) : times(covariance(...twice(scores)), covariance(...twice(rests)));
        const size = spread.n === 0n ? null : rootAt6(over(times(together, together), spread));
        const isNegative = isEnough && spread.n !== 0n && together.n < 0n;
        const facility = facilityOf(graded);
        const keys = held.flatMap(({ key }) => key ?? []);
        const options = [...new Set(held.flatMap((one) => one.options))].map((id) => {
          const chose = graded.filter(({ chosen }) => chosen.includes(id));
          const among = (at: 0 | 1) => (isEnough ? chose.filter(({ row }) => groups[at].has(row)).length : null);
          return { id, count: chose.length, upper27: among(0), lower27: among(1) };
        });
        const isUnused =
          held.some(({ key }) => key !== null) && options.some(({ id, count }) => count === 0 && !keys.includes(id));
        return {
          questionId: question.questionId,
          orderIndex: question.orderIndex,
          type: question.type,
          maxScore: question.maxScore,
          answered: graded.filter(({ isAnswered }) => isAnswered).length,
          blank: graded.filter(({ isAnswered }) => !isAnswered).length,
          facility: facility === null ? null : at6(facility),
          discrimination: !isEnough || size === null ? null : isNegative && size !== 0 ? -size : size,
          upper27: group(0),
          lower27: group(1),
          options,
          flags: [
            ...(isNegative ? (['NEGATIVE_DISCRIMINATION'] as const) : []),
            ...(isUnused ? (['UNUSED_DISTRACTOR'] as const) : []),
            ...(facility !== null && !isLess(facility, q(95, 100)) ? (['TOO_EASY'] as const) : []),
            ...(facility !== null && !isLess(q(10, 100), facility) ? (['TOO_HARD'] as const) : []),
          ],
        };
      }),
  };
}

function twice(values: readonly Q[]): [readonly Q[], readonly Q[]] {
  return [values, values];
}

/** Full marks of which some have no short decimal, and practice. */
const MARKS = [1, 0.25, 0, 10 / 3, 2.5, 1e-7];
const scoreOf = (full: number) => fc.constantFrom(0, full, Math.round(full * 500_000) / 1e6, -0.25);

/** Exams of two papers that share questions, with attempts that wait for grades. */
const exams: fc.Arbitrary<StatisticRow[]> = fc
  .array(fc.record({ full: fc.constantFrom(...MARKS), hasKey: fc.boolean(), order: fc.nat(9) }), {
    minLength: 1,
    maxLength: 5,
  })
  .chain((drawn) => {
    const all = drawn.map(
      ({ full, hasKey, order }, index): StatisticQuestion => ({
        questionId: `question-${index}`,
        orderIndex: order,
        type: 'SINGLE_CHOICE',
        maxScore: full,
        options: ['a', 'b', 'c'],
        key: hasKey ? ['a'] : null,
      }),
    );
    const [first] = all;
    const other = all.slice(first === undefined ? 0 : 1).map((one) => ({ ...one, orderIndex: one.orderIndex + 1 }));
    const papers = [all, other.length === 0 ? all : other];
    const row = fc.nat(5).chain((at) => {
      const questions = papers[at === 0 ? 1 : 0] ?? all;
      const outcomes = questions.map(({ maxScore }) =>
        fc.option(
          fc.record({
            score: fc.option(scoreOf(maxScore), { freq: 9 }),
            isAnswered: fc.boolean(),
            chosen: fc.subarray(['a', 'b', 'c']),
          }),
          { freq: 19 },
        ),
      );
      return fc.record({ questions: fc.constant(questions), outcomes: fc.tuple(...outcomes) });
    });
    return fc.array(row, { maxLength: 25 }).map((rows) =>
      rows.map(({ questions, outcomes }, index): StatisticRow => {
        const scores = outcomes.map((one) => Math.round((one?.score ?? 0) * 1e6) / 1e6);
        return {
          // Not in the order of the array: ties are decided by the id.
          attemptId: `attempt-${(index * 7) % 31}`,
          totalScore: Math.round(scores.reduce((sum, one) => sum + one, 0) * 1e6) / 1e6,
          maxScore: questions.reduce((sum, one) => sum + one.maxScore, 0),
          questions,
          outcomes: outcomes as (Outcome | null)[],
        };
      }),
    );
  });

t.test('statistics equal a recount from the rows in exact fractions', async () => {
  fc.assert(
    fc.property(exams, (rows) => {
      assert.deepStrictEqual(statisticsOf(rows), recount(rows));
    }),
    { numRuns: 300 },
  );
});

/**
 * Scores of ten persons in five items, and figures that SPSS prints for them: Daniel J. Denis, "Applied Univariate, Bivariate, and
 * Multivariate Statistics" (Wiley), section on Cronbach's alpha. The page is https://livelib.biz/read_928329/p38.
 */
const PUBLISHED = {
  scores: [
    [10, 12, 15, 11, 12],
    [12, 18, 12, 12, 1],
    [8, 16, 14, 14, 4],
    [6, 8, 16, 8, 6],
    [4, 7, 8, 7, 5],
    [6, 6, 3, 7, 3],
    [3, 4, 6, 5, 8],
    [7, 3, 7, 9, 9],
    [8, 9, 4, 10, 10],
    [9, 5, 6, 11, 12],
  ],
  alpha: '0.633',
  means: ['7.3000', '8.8000', '9.1000', '9.4000', '7.0000'],
  /** "Corrected Item-Total Correlation" of the first item. */
  firstWithRest: '0.712',
  correlations: [
    ['1.000', '0.679', '0.351', '0.827', '0.022'],
    ['0.679', '1.000', '0.612', '0.743', '-0.463'],
    ['0.351', '0.612', '1.000', '0.462', '-0.129'],
    ['0.827', '0.743', '0.462', '1.000', '-0.011'],
    ['0.022', '-0.463', '-0.129', '-0.011', '1.000'],
  ],
};

/** Returns the statistics of an exam that has these of the five items as its questions. */
function statisticsOfItems(items: readonly number[]): Statistics {
  const full = 20;
  const questions = items.map((item): StatisticQuestion => {
    return { questionId: `item-${item}`, orderIndex: item, type: 'NUMERIC', maxScore: full, options: [], key: null };
  });
  const rows = PUBLISHED.scores.map((scores, index): StatisticRow => {
    const held = items.map((item) => scores[item] ?? 0);
    return {
      attemptId: `${index}`,
      totalScore: held.reduce((sum, one) => sum + one, 0),
      maxScore: full * items.length,
      questions,
      outcomes: held.map((score) => ({ score, isAnswered: true, chosen: [] })),
    };
  });
  return statisticsOf(rows);
}

t.test('alpha, facility and discrimination equal the printed figures of a textbook', async (t) => {
  const found = statisticsOfItems([0, 1, 2, 3, 4]);
  t.equal(found.alpha?.toFixed(3), PUBLISHED.alpha);
  t.strictSame(
    found.questions.map(({ facility, maxScore }) => ((facility ?? 0) * maxScore).toFixed(4)),
    PUBLISHED.means,
  );
  t.equal(found.questions[0]?.discrimination?.toFixed(3), PUBLISHED.firstWithRest);

  // In an exam of two questions, the rest of one is the other: the discrimination of both is their correlation.
  for (const [one, row] of PUBLISHED.correlations.entries()) {
    for (const [other, printed] of row.entries()) {
      if (one === other) continue;
      const pair = statisticsOfItems([one, other]).questions.map(({ discrimination }) => discrimination?.toFixed(3));
      t.strictSame(pair, [printed, printed], `items ${one + 1} and ${other + 1}`);
    }
  }
});

const QUESTION = { type: 'SINGLE_CHOICE', maxScore: 1, options: ['a', 'b'], key: ['a'] };

t.test('a key that is wrong shows as a negative discrimination', async (t) => {
  const questions = ['wrong', 'right', 'third'].map((questionId, orderIndex) => ({
    ...QUESTION,
    questionId,
    orderIndex,
  }));
  const rows = Array.from({ length: 10 }, (_, index): StatisticRow => {
    const isGood = index < 5;
    const scores = [isGood ? 0 : 1, isGood ? 1 : 0, isGood ? 1 : 0];
    const outcomes = scores.map((score) => ({ score, isAnswered: true, chosen: [score === 1 ? 'a' : 'b'] }));
    return { attemptId: `${index}`, totalScore: isGood ? 2 : 1, maxScore: 3, questions, outcomes };
  });
  const [wrong, right] = statisticsOf(rows).questions;
  t.match(wrong, { discrimination: -1, upper27: 0, lower27: 1, flags: ['NEGATIVE_DISCRIMINATION'] });
  t.match(wrong?.options, [
    { id: 'a', count: 5, upper27: 0, lower27: 3 },
    { id: 'b', count: 5, upper27: 3, lower27: 0 },
  ]);
  t.match(right, { flags: [] });
  t.match(statisticsOf(rows.slice(1)), {
    alpha: null,
    standardError: null,
    questions: [{ discrimination: null, upper27: null, flags: [] }],
  });
});
