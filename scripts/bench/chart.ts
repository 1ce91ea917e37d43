import { meetsAim, type ReportRow, ratioOf, rowsByName } from './row.ts';

const LEFT = 300;
const WIDTH = 420;
const TOP = 56;
/** Room beside the bars for a ratio and the name of an engine. */
const RIGHT = 170;
/** A bar, and the distance between two bars of a measure. */
const BAR = { height: 15, step: 18 };
const MIN_LINE_HEIGHT = 44;
const GAP = 14;
const MET = '#2f7d4f';
const MISSED = '#b4532a';

/** Returns an SVG with the ratios as bars, one for each engine of a measure, with a mark at its aim. 1 is as fast as the reference. */
export function ratioChart(rows: readonly ReportRow[], title: string): string {
  const shown = rows.filter((row) => ratioOf(row) !== null && row.aim !== null);
  const largest = Math.max(1.5, ...shown.map((row) => Math.max(ratioOf(row) ?? 0, row.aim?.ratio ?? 0)));
  const x = (ratio: number) => LEFT + (ratio / largest) * WIDTH;
  const drawn: string[] = [];
  let y = TOP;
  for (const group of rowsByName(shown)) {
    drawn.push(...bars(group, y, x));
    y += lineHeight(group);
  }
  const [full, height] = [LEFT + WIDTH + RIGHT, y + 30];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${full} ${height}" width="${full}" height="${height}" role="img" aria-label="${escaped(title)}">`,
    '<style>text{font:13px system-ui,sans-serif;fill:#24292f}.small{font-size:11px;fill:#57606a}.title{font-size:15px;font-weight:600}</style>',
    `<rect width="${full}" height="${height}" fill="#ffffff"/>`,
    `<text class="title" x="16" y="28">${escaped(title)}</text>`,
    `<line x1="${x(1).toFixed(1)}" x2="${x(1).toFixed(1)}" y1="${TOP - 8}" y2="${height - 22}" stroke="#8c959f" stroke-dasharray="3 3"/>`,
    `<text class="small" x="${x(1).toFixed(1)}" y="${height - 8}" text-anchor="middle">1× = the reference</text>`,
    ...drawn,
    '</svg>',
    '',
  ].join('\n');
}

function lineHeight(group: readonly ReportRow[]): number {
  return Math.max(MIN_LINE_HEIGHT, group.length * BAR.step + GAP);
}

function bars(group: readonly ReportRow[], y: number, x: (ratio: number) => number): string[] {
  const [first] = group;
  if (first === undefined) return [];
  const aim = first.aim?.ratio ?? 0;
  const sign = first.aim?.side === 'most' ? '≤' : '≥';
  const bottom = y + group.length * BAR.step;
  return [
    `<text x="16" y="${y + 14}">${escaped(first.name)}</text>`,
    `<text class="small" x="16" y="${y + 28}">aim ${sign} ${aim}×, ${sign === '≤' ? 'shorter' : 'longer'} is better</text>`,
    ...group.flatMap((row, index) => bar(row, { y: y + index * BAR.step, x, faint: index > 0 })),
    `<line x1="${x(aim).toFixed(1)}" x2="${x(aim).toFixed(1)}" y1="${y - 3}" y2="${bottom + 2}" stroke="#24292f" stroke-width="2"/>`,
  ];
}

/** Returns one bar; `faint` marks the engines after the first. */
function bar(row: ReportRow, place: { y: number; x: (ratio: number) => number; faint: boolean }): string[] {
  const { y, x, faint } = place;
  const ratio = ratioOf(row) ?? 0;
  const fill = `fill="${meetsAim(row) ? MET : MISSED}"${faint ? ' fill-opacity="0.55"' : ''}`;
  const beside = Math.max(x(ratio), x(row.aim?.ratio ?? 0)) + 8;
  const engine = row.engine === null ? '' : ` <tspan class="small">${escaped(row.engine)}</tspan>`;
  return [
    `<rect x="${LEFT}" y="${y}" width="${(x(ratio) - LEFT).toFixed(1)}" height="${BAR.height}" rx="3" ${fill}/>`,
    `<text x="${beside.toFixed(1)}" y="${y + 12}">${ratio.toFixed(2)}×${engine}</text>`,
  ];
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}
