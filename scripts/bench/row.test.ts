import t from 'tap';
import { figuresOf, quantile, ratesOf } from './row.ts';

t.test('a quantile is a sample, by nearest rank, whatever the order', async (t) => {
  t.equal(quantile([3, 1, 2], 0.5), 2);
  t.equal(quantile([4, 1, 3, 2], 0.5), 2);
  t.equal(quantile([7], 0.99), 7);
  t.strictSame(figuresOf(Array.from({ length: 200 }, (_, i) => 200 - i)), { p50: 100, p99: 198 });
});

t.test('the bad end of rates is the low one', async (t) => {
  t.strictSame(ratesOf([30, 10, 20]), { p50: 20, p99: 10 });
});

t.test('of nothing nothing is known', async (t) => {
  t.ok(Number.isNaN(quantile([], 0.5)));
});
