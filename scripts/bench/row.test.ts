import t from 'tap';
import { figuresOf, quantile, ratesOf } from './row.ts';

t.test('a quantile is the nearest-rank sample, independent of the order', async (t) => {
  t.equal(quantile([3, 1, 2], 0.5), 2);
  t.equal(quantile([4, 1, 3, 2], 0.5), 2);
  t.equal(quantile([7], 0.99), 7);
  t.strictSame(figuresOf(Array.from({ length: 200 }, (_, i) => 200 - i)), { p50: 100, p99: 198 });
});

t.test('the p99 of rates is the lowest rate', async (t) => {
  t.strictSame(ratesOf([30, 10, 20]), { p50: 20, p99: 10 });
});

t.test('the quantile of no samples is NaN', async (t) => {
  t.ok(Number.isNaN(quantile([], 0.5)));
});
