import t from 'tap';
import { markdownTable, notesOf, ratioChart, textTable } from './report.ts';
import { meetsAim, type Row, ratioOf } from './row.ts';

const row = (overrides: Partial<Row>): Row => ({
  name: 'a <b>',
  unit: 'ms',
  ours: { p50: 12, p99: 1_234 },
  reference: { p50: 10, p99: 20 },
  against: 'x | y',
  aim: { side: 'most', ratio: 1.3 },
  notes: ['odd'],
  ...overrides,
});

t.test('a ratio meets an aim from its own side, the bound included', async (t) => {
  t.equal(ratioOf(row({})), 1.2);
  t.equal(meetsAim(row({})), true);
  t.equal(meetsAim(row({ aim: { side: 'most', ratio: 1.19 } })), false);
  t.equal(meetsAim(row({ aim: { side: 'least', ratio: 1.2 } })), true);
  t.equal(meetsAim(row({ aim: { side: 'least', ratio: 1.21 } })), false);
  t.equal(meetsAim(row({ aim: null })), null);
  t.equal(meetsAim(row({ reference: null })), null);
});

t.test('the table shows each row, whether met, and breaks no markdown', async (t) => {
  const text = textTable([row({})]);
  t.match(text, /a <b> +12\.0 \/ 1 234 ms +10\.0 \/ 20\.0 ms +x \| y +1\.20× +≤ 1\.3× +yes/);
  t.match(markdownTable([row({ reference: null })]), /\| a <b> \|.*\| – \| x \\\| y \| – \|/);
  t.strictSame(notesOf([row({})]), ['a <b>: odd']);
});

t.test('the chart is well-formed and leaves out what has no ratio', async (t) => {
  const svg = ratioChart([row({}), row({ name: 'alone', reference: null })], 'R & D');
  t.match(svg, /^<svg [^>]*aria-label="R &amp; D">/);
  t.match(svg, /a &lt;b>/);
  t.notMatch(svg, /alone/);
});
