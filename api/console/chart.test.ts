import t from 'tap';
import { pathOf, spark } from './chart.ts';

t.test('a chart has a gap for each minute without a sample', async (t) => {
  t.equal(pathOf([0, 2, null, 1, null, 2, 2], 2), 'M0 19L1 1M2.6 10H3.4M5 1L6 1');
  t.equal(pathOf([null, null], 0), '');
  t.equal(pathOf([0, 0], 0), 'M0 19L1 19');
});

t.test('a chart describes itself, and an empty one draws nothing', async (t) => {
  const words = {
    chart: (name: string, highest: string, newest: string) => `${name}: at most ${highest}, now ${newest}`,
    most: String,
  };
  const chart = spark('due', [3, 12, null, 4], String, words).toString();
  t.match(chart, 'aria-label="due: at most 12, now 4"');
  t.notMatch(spark('due', [null, null], String, words).toString(), '<svg');
});
