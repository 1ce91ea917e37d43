import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { figuresOf, quantile, type ReportRow, ratesOf } from './measure.ts';
import { markdownTable, noteLines, withFigures } from './report.ts';

const row = (overrides: Partial<ReportRow>): ReportRow => ({
  name: 'a <b>',
  engine: 'fast',
  unit: 'ms',
  ours: { p50: 12, p99: 1_234 },
  reference: { p50: 10, p99: 20 },
  against: 'x | y',
  aim: { side: 'most', ratio: 1.3 },
  notes: ['odd'],
  ...overrides,
});

t.test('a row of the bench shows its engine, figures, ratio and aim, and escapes markdown', async (t) => {
  const ratio = (aim: ReportRow['aim']) =>
    markdownTable([row({ aim })])
      .split(' | ')
      .at(-1);
  t.match(
    markdownTable([row({})]),
    '| a <b>, fast | 12.0 / 1 234 ms | 10.0 / 20.0 ms (x \\| y) | 1.20×, aim ≤ 1.3×: met |',
  );
  t.match(markdownTable([row({ engine: null, reference: null })]), /\| a <b> \| [^|]* \| – \(x \\\| y\) \| – \|/);
  t.equal(ratio({ side: 'most', ratio: 1.19 }), '1.20×, aim ≤ 1.19×: missed |');
  t.equal(ratio({ side: 'least', ratio: 1.2 }), '1.20×, aim ≥ 1.2×: met |');
  t.equal(ratio({ side: 'least', ratio: 1.21 }), '1.20×, aim ≥ 1.21×: missed |');
  t.equal(ratio(null), '1.20× |');
});

t.test('the bench groups the engines of a measure in the order of their runs', async (t) => {
  const rows = [row({}), row({ name: 'c' }), row({ engine: 'slow' }), row({ name: 'd', engine: null })];
  const names = markdownTable(rows).split('\n').slice(2);
  t.strictSame(
    names.map((line) => line.split(' | ')[0]),
    ['| a <b>, fast', '| a <b>, slow', '| c, fast', '| d'],
  );
});

t.test('a bench note names its engine only if the notes of the engines differ', async (t) => {
  const rows = [row({ notes: ['same', 'took 2'] }), row({ engine: 'slow', notes: ['same', 'took 9'] })];
  t.strictSame(noteLines(rows), ['- a <b>: same', '- a <b>, fast: took 2', '- a <b>, slow: took 9']);
  t.strictSame(noteLines([row({ engine: null })]), ['- a <b>: odd']);
});

t.test('new figures replace those between their marks, and the page has marks for each kind of run', async (t) => {
  let page = readFileSync(path.resolve(import.meta.dirname, '../../docs/bench.md'), 'utf8');
  for (const name of ['all', 'exam-morning', 'stretches']) {
    const next = withFigures(page, name, [row({ name: `new ${name}` })], ['cores: 2']);
    t.equal(withFigures(next, name, [row({ name: `new ${name}` })], ['cores: 2']), next, 'once');
    t.match(next, `| new ${name}, fast |`);
    t.equal(next.split(`<!-- figures: ${name} -->`)[0], page.split(`<!-- figures: ${name} -->`)[0]);
    t.equal(next.split(`<!-- end: ${name} -->`)[1], page.split(`<!-- end: ${name} -->`)[1]);
    page = next;
  }
  t.throws(() => withFigures(page, 'evening', [], []), { message: /no marks of evening/ });
});

t.test('a quantile is the nearest-rank sample, and the p99 of rates is the lowest rate', async (t) => {
  t.equal(quantile([4, 1, 3, 2], 0.5), 2);
  t.equal(quantile([7], 0.99), 7);
  t.ok(Number.isNaN(quantile([], 0.5)));
  t.strictSame(figuresOf(Array.from({ length: 200 }, (_, i) => 200 - i)), { p50: 100, p99: 198 });
  t.strictSame(ratesOf([30, 10, 20]), { p50: 20, p99: 10 });
});
