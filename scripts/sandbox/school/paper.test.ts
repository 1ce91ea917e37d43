import t from 'tap';
import { copyPaper } from '#shared/attempt/copy-paper.ts';
import { sumExactly } from '#shared/kernel/decimal.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import { mathsPaper } from './paper.ts';
import { CHOICES } from './paper-choices.ts';
import { NUMERIC_QUESTIONS } from './paper-written.ts';

t.test('the demo paper has forty questions of four types, worth ten points', async (t) => {
  const paper = mathsPaper();
  const kinds = Map.groupBy(paper, (question) => question.type);
  t.equal(paper.length, 40);
  t.strictSame(
    [...kinds].map(([type, questions]) => [type, questions.length]),
    [
      ['SINGLE_CHOICE', 28],
      ['TRUE_FALSE_GROUP', 4],
      ['NUMERIC', 7],
      ['ESSAY', 1],
    ],
  );
  t.equal(sumExactly(paper.map((question) => question.score)), 10);
});

t.test('the attempt service accepts the demo paper', async (t) => {
  t.notMatch(atOnce(copyPaper(mathsPaper())), { rejected: String });
});

t.test('the demo paper repeats no option within a question', async (t) => {
  for (const { text, options } of CHOICES) t.equal(new Set(options).size, 4, text);
});

t.test('the numeric answers of the demo paper equal computed values', async (t) => {
  const rounded = (value: number, places: number) => value.toFixed(places).replace('.', ',').replace(/,0+$/, '');
  const boxes = Array.from({ length: 6_001 }, (_, step) => step / 1_000).map((x) => x * (12 - 2 * x) ** 2);
  const computed = [
    rounded((6 ** 2 * 4) / 3, 2),
    rounded(((5 * 4) / 2) * 4, 0),
    rounded(Math.max(...boxes), 3),
    rounded((4 * 4 ** 2) / 2 - 4 ** 3 / 3, 1),
    rounded(100 * 1.06 ** 3, 1),
    rounded(Math.abs(2 * 1 - 2 * 2 + 3 + 7) / Math.hypot(2, -2, 1), 2),
    rounded(1 - 0.3 * 0.2, 2),
  ];
  t.strictSame(
    NUMERIC_QUESTIONS.map((question) => question.answer),
    computed,
  );
});

t.test('the numeric right options of the demo paper equal computed values', async (t) => {
  const computed: readonly [beginning: string, answer: number][] = [
    ['Nghiệm của phương trình 2ˣ⁺¹', Math.log2(16) - 1],
    ['Cho cấp số cộng', 3 + 9 * 4],
    ['Thể tích của khối chóp', (12 * 5) / 3],
    ['Tích phân', 3 ** 2 + 3 - (1 + 1)],
    ['Giá trị lớn nhất', Math.max(...[0, 1, 2].map((x) => x ** 3 - 3 * x + 1))],
    ['Một hộp có 4 viên', (4 * 3) / (10 * 9)],
    ['Trong không gian Oxyz, độ dài', Math.hypot(1, 2, -2)],
    ['Giá trị của biểu thức', Math.log(27 / 9) / Math.log(3)],
    ['Thể tích của khối lập phương', 27],
    ['Cho hai biến cố độc lập', 0.4 * 0.5],
    ['Diện tích hình phẳng', 27 / 3],
    ['Cho cấp số nhân', 2 * 3 ** 3],
    ['Cho hai biến cố A, B', 0.3 / 0.6],
  ];
  for (const [beginning, answer] of computed) {
    const question = CHOICES.find(({ text }) => text.startsWith(beginning));
    const option = question?.options['ABCD'.indexOf(question.correct)] ?? '';
    const [numerator, denominator = '1'] = option.replace('x = ', '').replace(',', '.').split('/');
    t.ok(Math.abs(Number(numerator) / Number(denominator) - answer) < 1e-9, `${beginning}: ${option}`);
  }
});
