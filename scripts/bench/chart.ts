import { meetsAim, type Row, ratioOf } from './row.ts';

const LEFT = 300;
const WIDTH = 420;
const LINE = 44;
const TOP = 56;
const MET = '#2f7d4f';
const MISSED = '#b4532a';

/** The ratios as bars, each with a mark at its aim. 1 = as fast as the reference. */
export function ratioChart(rows: readonly Row[], title: string): string {
  const shown = rows.filter((row) => ratioOf(row) !== null && row.aim !== null);
  const largest = Math.max(1.5, ...shown.map((row) => Math.max(ratioOf(row) ?? 0, row.aim?.ratio ?? 0)));
  const x = (ratio: number) => LEFT + (ratio / largest) * WIDTH;
  const height = TOP + shown.length * LINE + 30;
  const full = LEFT + WIDTH + 90;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${full} ${height}" width="${full}" height="${height}" role="img" aria-label="${escaped(title)}">`,
    '<style>text{font:13px system-ui,sans-serif;fill:#24292f}.small{font-size:11px;fill:#57606a}.title{font-size:15px;font-weight:600}</style>',
    `<rect width="${full}" height="${height}" fill="#ffffff"/>`,
    `<text class="title" x="16" y="28">${escaped(title)}</text>`,
    `<line x1="${x(1)}" x2="${x(1)}" y1="${TOP - 8}" y2="${height - 22}" stroke="#8c959f" stroke-dasharray="3 3"/>`,
    `<text class="small" x="${x(1)}" y="${height - 8}" text-anchor="middle">1× = the reference</text>`,
    ...shown.flatMap((row, index) => bar(row, TOP + index * LINE, x)),
    '</svg>',
    '',
  ].join('\n');
}

function bar(row: Row, y: number, x: (ratio: number) => number): string[] {
  const ratio = ratioOf(row) ?? 0;
  const aim = row.aim?.ratio ?? 0;
  const sign = row.aim?.side === 'most' ? '≤' : '≥';
  return [
    `<text x="16" y="${y + 14}">${escaped(row.name)}</text>`,
    `<text class="small" x="16" y="${y + 28}">aim ${sign} ${aim}×, ${sign === '≤' ? 'shorter' : 'longer'} is better</text>`,
    `<rect x="${LEFT}" y="${y + 2}" width="${(x(ratio) - LEFT).toFixed(1)}" height="20" rx="3" fill="${meetsAim(row) ? MET : MISSED}"/>`,
    `<line x1="${x(aim).toFixed(1)}" x2="${x(aim).toFixed(1)}" y1="${y - 3}" y2="${y + 27}" stroke="#24292f" stroke-width="2"/>`,
    `<text x="${(Math.max(x(ratio), x(aim)) + 8).toFixed(1)}" y="${y + 17}">${ratio.toFixed(2)}×</text>`,
  ];
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}
