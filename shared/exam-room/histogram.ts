import type { Statistics } from './statistics.ts';

/** The picture has the shape of a slide. Lengths are in its own units. */
const [WIDTH, HEIGHT] = [1_280, 720];
const PLOT = { left: 110, right: 1_220, top: 230, bottom: 610 };
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";
const [INK, FAINT, BAR, MEAN] = ['#1f2937', '#6b7280', '#2563eb', '#b45309'];
/** Characters of a title that fit on the slide. */
const MAX_TITLE = 48;

/**
 * Draws the distribution of the totals as an SVG, in Vietnamese: ten bars with their counts, the mean, and the numbers of the exam below the
 * title. It loads nothing, so that it can be put on a slide as it is.
 */
export function histogramSvg(statistics: Statistics, examTitle: string): string {
  const { attempts, histogram, mean } = statistics;
  const title = cut(examTitle);
  const { ceiling, lines } = scaleOf(Math.max(1, ...histogram.map(({ count }) => count)));
  const y = (count: number) => PLOT.bottom - ((PLOT.bottom - PLOT.top) * count) / ceiling;
  const step = (PLOT.right - PLOT.left) / Math.max(1, histogram.length);
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}" ` +
      `role="img" aria-labelledby="title" font-family="${FONT}" fill="${INK}">`,
    `<title id="title">Phân bố điểm: ${escaped(title)}. ${escaped(summaryOf(statistics))}</title>`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#ffffff"/>`,
    text({ x: 60, y: 62, size: 24, weight: 600, fill: BAR }, 'Phân bố điểm'),
    text({ x: 60, y: 106, size: 36, weight: 700 }, title),
    text({ x: 60, y: 148, size: 24, fill: FAINT }, summaryOf(statistics)),
    ...gridOf(ceiling, lines, y),
    text({ x: 60, y: PLOT.top - 22, size: 22, fill: FAINT }, 'Số bài'),
    text({ x: PLOT.right, y: PLOT.bottom + 88, size: 22, fill: FAINT, anchor: 'end' }, 'Điểm'),
  ];
  // The counts are above the line of the mean, with a halo.
  const labels: string[] = [];
  for (const [index, { from, to, count }] of histogram.entries()) {
    const x = PLOT.left + index * step;
    const middle = x + step / 2;
    const box = `x="${x + 6}" y="${y(count)}" width="${step - 12}" height="${PLOT.bottom - y(count)}"`;
    parts.push(`<rect ${box} rx="4" fill="${BAR}"/>`);
    if (count > 0)
      parts.push(text({ x: middle, y: y(count) - 10, size: 24, weight: 600, anchor: 'middle' }, `${count}`));
    parts.push(text({ x, y: PLOT.bottom + 38, size: 22, anchor: 'middle' }, shown(from)));
    if (index === histogram.length - 1) {
      parts.push(text({ x: x + step, y: PLOT.bottom + 38, size: 22, anchor: 'middle' }, shown(to)));
    }
  }
  parts.push(`<path d="M${PLOT.left} ${PLOT.bottom}H${PLOT.right}" stroke="${INK}" stroke-width="2"/>`);
  const last = histogram.at(-1)?.to ?? 0;
  if (mean !== null && last > 0 && attempts > 0) {
    const x = PLOT.left + ((PLOT.right - PLOT.left) * Math.min(Math.max(mean, 0), last)) / last;
    const isRight = x > (PLOT.left + PLOT.right) / 2;
    parts.push(
      `<path d="M${x} ${PLOT.top - 40}V${PLOT.bottom}" stroke="${MEAN}" stroke-width="3" stroke-dasharray="10 7"/>`,
      text(
        {
          x: x + (isRight ? -12 : 12),
          y: PLOT.top - 24,
          size: 22,
          weight: 600,
          fill: MEAN,
          anchor: isRight ? 'end' : 'start',
        },
        `Trung bình ${shown(mean)}`,
      ),
    );
  }
  return `${[...parts, ...labels].join('\n')}\n</svg>\n`;
}

function summaryOf({ attempts, mean, median, standardDeviation, alpha }: Statistics): string {
  if (attempts === 0) return 'Chưa có bài nào được chấm';
  const named: readonly [string, number | null][] = [
    ['trung bình', mean],
    ['trung vị', median],
    ['độ lệch chuẩn', standardDeviation],
    ['α', alpha],
  ];
  const numbers = named.flatMap(([name, value]) => (value === null ? [] : [`${name} ${shown(value)}`]));
  return [`${attempts} bài`, ...numbers].join(' · ');
}

function gridOf(ceiling: number, lines: number, y: (count: number) => number): string[] {
  return Array.from({ length: lines + 1 }, (_, index) => (ceiling * index) / lines).flatMap((count) => [
    `<path d="M${PLOT.left} ${y(count)}H${PLOT.right}" stroke="#e5e7eb" stroke-width="1.5"/>`,
    text({ x: PLOT.left - 16, y: y(count) + 8, size: 22, fill: FAINT, anchor: 'end' }, `${count}`),
  ]);
}

/** First digits of a scale, with the lines that divide it into round numbers. */
const SCALES = [
  [1, 5],
  [2, 4],
  [3, 3],
  [4, 4],
  [5, 5],
  [6, 3],
  [8, 4],
] as const;

/** Returns the least round number that is not below the count, and the number of lines up to it, each at a whole count. */
function scaleOf(count: number): { ceiling: number; lines: number } {
  for (let power = 1; ; power *= 10) {
    const [digit, lines] = SCALES.find(([first]) => first * power >= count) ?? [];
    if (digit !== undefined) return { ceiling: digit * power, lines: power === 1 ? Math.min(digit, lines) : lines };
  }
}

interface TextPlace {
  x: number;
  y: number;
  size: number;
  weight?: number;
  fill?: string;
  anchor?: 'start' | 'middle' | 'end';
}

function text({ x, y, size, weight = 400, fill = INK, anchor = 'start' }: TextPlace, content: string): string {
  const style = `font-size="${size}" font-weight="${weight}" fill="${fill}" text-anchor="${anchor}"`;
  const halo = 'stroke="#ffffff" stroke-width="6" stroke-linejoin="round" paint-order="stroke"';
  return `<text x="${x}" y="${y}" ${style} ${halo}>${escaped(content)}</text>`;
}

/** Returns a number for readers in Vietnam, with two decimal places at most. */
function shown(value: number): string {
  return String(Math.round(value * 100) / 100).replace('.', ',');
}

function cut(title: string): string {
  const characters = [...title];
  return characters.length <= MAX_TITLE ? title : `${characters.slice(0, MAX_TITLE - 1).join('')}…`;
}

/** Returns the text for XML, which admits no control characters and no halves of a surrogate pair. */
function escaped(content: string): string {
  return content
    .toWellFormed()
    .replace(/[\p{Cc}\ufffe\uffff]/gu, ' ')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}
