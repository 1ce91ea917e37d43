import t from 'tap';
import { copyPaper } from '#shared/attempt/copy-paper.ts';
import { sumExactly } from '#shared/kernel/decimal.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import { mathsPaper } from './paper.ts';

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
  for (const { type, options, questionId } of mathsPaper()) {
    const expected = type === 'SINGLE_CHOICE' || type === 'TRUE_FALSE_GROUP' ? 4 : 0;
    t.equal(new Set(options?.map(({ content }) => content)).size, expected, questionId);
  }
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
  const answers = mathsPaper().flatMap(({ answerKey }) => answerKey?.numericAnswers?.map(({ value }) => value) ?? []);
  t.strictSame(
    answers.map((value) => String(value).replace('.', ',')),
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
    const question = mathsPaper().find(({ contentText }) =>
      contentText?.replace(/^Câu \d+\. /, '').startsWith(beginning),
    );
    const [right] = question?.answerKey?.correctOptionIds ?? [];
    const option = question?.options?.find(({ id }) => id === right)?.content ?? '';
    const [numerator, denominator = '1'] = option.replace('x = ', '').replace(',', '.').split('/');
    t.ok(Math.abs(Number(numerator) / Number(denominator) - answer) < 1e-9, `${beginning}: ${option}`);
  }
});
