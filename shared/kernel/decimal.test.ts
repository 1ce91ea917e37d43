import { Decimal } from 'decimal.js';
import fc from 'fast-check';
import t from 'tap';
import { decimal, percentOf, roundScore, sumExactly } from './decimal.ts';

t.test('sums decimals as they were written, not as binary fractions', async (t) => {
  t.equal(sumExactly([1.3, 1.3, 1.3]), 3.9);
  t.equal(sumExactly([0.1, 0.2]), 0.3);
  t.equal(sumExactly([]), 0);
  t.ok(Object.is(sumExactly([-0.5, 0.5]), 0), 'never the negative zero');
});

t.test('a sum of scores equals the sum of their whole millionths, in any order', async () => {
  const score = fc.integer({ min: -9_000_000, max: 9_000_000 });
  fc.assert(
    fc.property(fc.array(score, { maxLength: 60 }), fc.infiniteStream(fc.nat()), (millionths, shuffle) => {
      const sum = millionths.reduce((total, each) => total + BigInt(each), 0n);
      const scores = millionths.map((each) => each / 1_000_000);
      const keyed = scores.map((value) => ({ value, key: shuffle.next().value ?? 0 }));
      const others = keyed.sort((one, other) => one.key - other.key).map(({ value }) => value);
      return sumExactly(scores) === Number(sum) / 1_000_000 && sumExactly(others) === sumExactly(scores);
    }),
  );
});

t.test('rounds a score to six decimal places, and a tie to the larger magnitude', async (t) => {
  t.equal(roundScore(decimal('0.0000005')), 0.000001);
  t.equal(roundScore(decimal('0.00000049999')), 0);
  t.equal(roundScore(decimal('-0.0000005')), -0.000001);
  t.equal(roundScore(decimal('1.0000015')), 1.000002);
  t.equal(roundScore(decimal(1).dividedBy(3)), 0.333333);
  t.equal(roundScore(decimal(2).dividedBy(3)), 0.666667);
  t.ok(Object.is(roundScore(decimal('-0.0000001')), 0), 'never the negative zero');
});

t.test('does not round percentages', async (t) => {
  t.equal(percentOf(3.9, 3.9), 100);
  t.equal(percentOf(1, 3), 33.333333333333336);
  t.equal(percentOf(-1, 4), -25);
  t.equal(percentOf(0, 0), null);
});

t.test('keeps differences exact across the whole range of accepted decimals', async (t) => {
  const huge = decimal('1e800');
  const tiny = decimal('1e-800');
  t.ok(huge.plus(tiny).minus(huge).equals(tiny));
  t.ok(decimal(5e-324).times(5e-324).greaterThan(0));
});

t.test('rejects a text that is not a finite decimal, and leaves the decimal.js defaults unchanged', async (t) => {
  for (const value of [Number.NaN, Number.POSITIVE_INFINITY, 'abc', '']) t.throws(() => decimal(value));
  t.equal(Decimal.precision, 20, 'the shared constructor keeps its own precision');
});
