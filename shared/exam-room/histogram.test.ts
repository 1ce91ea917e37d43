import fc from 'fast-check';
import t from 'tap';
import { csvLine } from './csv.ts';
import { histogramSvg } from './histogram.ts';
import type { Statistics } from './statistics.ts';
import { statisticsLines } from './statistics-csv.ts';

const COUNTS = [0, 1, 3, 9, 18, 34, 47, 52, 27, 9];
const STATISTICS: Statistics = {
  attempts: 200,
  mean: 6.4375,
  median: 6.5,
  standardDeviation: 1.724312,
  alpha: 0.823417,
  standardError: 0.724637,
  histogram: COUNTS.map((count, index) => ({ from: index, to: index + 1, count })),
  questions: [
    {
      questionId: '=cmd',
      orderIndex: 3,
      type: 'SINGLE_CHOICE',
      maxScore: 0.25,
      answered: 198,
      blank: 2,
      facility: 0.5,
      discrimination: -0.2,
      upper27: 0.25,
      lower27: null,
      options: [{ id: 'a', count: 7, upper27: 1, lower27: 2 }],
      flags: ['NEGATIVE_DISCRIMINATION', 'TOO_HARD'],
    },
  ],
};

t.test('the picture shows each count, the mean and the numbers of the exam', async (t) => {
  const svg = histogramSvg(STATISTICS, 'Toán 12');
  for (const count of COUNTS.filter((one) => one > 0)) t.ok(svg.includes(`>${count}</text>`), `${count} attempts`);
  t.match(svg, />Phân bố điểm<\/text>\n.*>Toán 12<\/text>/);
  t.match(svg, />200 bài · trung bình 6,44 · trung vị 6,5 · độ lệch chuẩn 1,72 · α 0,82<\/text>/);
  t.match(svg, />Trung bình 6,44<\/text>/);
});

t.test('the picture of an exam without graded attempts says so', async (t) => {
  const none = { ...STATISTICS, attempts: 0, mean: null, median: null, standardDeviation: null, alpha: null };
  const histogram = STATISTICS.histogram.map(() => ({ from: 0, to: 0, count: 0 }));
  const svg = histogramSvg({ ...none, histogram }, 'Toán 12');
  t.match(svg, />Chưa có bài nào được chấm<\/text>/);
  t.notMatch(svg, /NaN|Infinity|null|undefined/);
});

t.test('no title of an exam breaks the picture or adds markup to it', async (t) => {
  const signs = fc.string({
    unit: fc.constantFrom('<', '>', '&', '"', "'", '\u0000', '\ud800', '\uffff', 'ế', '😀', 'a'),
  });
  fc.assert(
    fc.property(signs, (title) => {
      const svg = histogramSvg(STATISTICS, title);
      const marks = svg.match(/<[^>]*>/g) ?? [];
      return (
        svg.isWellFormed() &&
        !/[\p{Cc}\uffff]/u.test(svg.replaceAll('\n', '')) &&
        marks.length === (histogramSvg(STATISTICS, '').match(/<[^>]*>/g) ?? []).length &&
        marks.every((mark) => /^<\/?(?:svg|title|rect|text|path)\b/.test(mark)) &&
        !/&(?!(?:amp|lt|gt|quot);)/.test(svg)
      );
    }),
  );
  t.match(histogramSvg(STATISTICS, 'x'.repeat(5_000)), /x{47}…<\/text>/);
});

t.test('the table has one line for each question, with the numbers of the whole exam', async (t) => {
  const [header = '', line, ...others] = statisticsLines(STATISTICS, { separator: ';', decimal: ',' });
  t.strictSame(others, []);
  t.equal(header.split(';').length, 18);
  const cells = [3, '=cmd', 'SINGLE_CHOICE', 0.25, 198, 2, 0.5, -0.2, 0.25, null];
  const rest = ['NEGATIVE_DISCRIMINATION TOO_HARD', 'a 7 1 2', 200, 6.4375, 6.5, 1.724312, 0.823417, 0.724637];
  t.equal(line, csvLine([...cells, ...rest], { separator: ';', decimal: ',' }));
  t.match(line, /^3;'=cmd;SINGLE_CHOICE;0,25;198;2;0,5;-0,2;0,25;;/);
});
