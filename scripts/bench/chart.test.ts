import t from 'tap';
import { ratioChart } from './chart.ts';
import type { ReportRow } from './row.ts';

const row = (overrides: Partial<ReportRow>): ReportRow => ({
  name: 'a <b>',
  engine: 'fast',
  unit: 'ms',
  ours: { p50: 12, p99: 20 },
  reference: { p50: 10, p99: 20 },
  against: 'x',
  aim: { side: 'most', ratio: 1.3 },
  notes: [],
  ...overrides,
});

t.test('the bench chart is well-formed and omits rows without a ratio or an aim', async (t) => {
  const alone = row({ name: 'alone', reference: null });
  const aimless = row({ name: 'aimless', aim: null });
  const svg = ratioChart([row({}), alone, aimless], 'R & D');
  t.match(svg, /^<svg [^>]*aria-label="R &amp; D">/);
  t.match(svg, /a &lt;b>/);
  t.notMatch(svg, /alone|aimless/);
});

t.test('the bench chart draws one bar for each engine of a measure, with one name and one aim', async (t) => {
  const slow = row({ engine: 'slow', ours: { p50: 14, p99: 20 } });
  const svg = ratioChart([row({}), row({ name: 'bare', engine: null }), slow], '');
  t.equal(svg.match(/a &lt;b>/g)?.length, 1);
  t.equal(svg.match(/stroke-width="2"/g)?.length, 2, 'one mark for each aim');
  const ratios = [...svg.matchAll(/>(\d\.\d\d×)(?: <tspan class="small">(\w+)<)?/g)].map(([, ...found]) => found);
  t.strictSame(ratios, [
    ['1.20×', 'fast'],
    ['1.40×', 'slow'],
    ['1.20×', undefined],
  ]);
  const ys = [...svg.matchAll(/<rect x="[^"]*" y="(\d+)"/g)].map(([, y]) => Number(y));
  t.strictSame(
    ys,
    ys.toSorted((a, b) => a - b),
  );
  t.equal(new Set(ys).size, 3, 'no bar covers another');
});
