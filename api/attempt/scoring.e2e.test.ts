import t from 'tap';
import {
  attemptClient,
  choice,
  essay,
  numeric,
  options,
  shortText,
  statements,
} from '#testing/clients/attempt-client.ts';
import { startCluster } from '#testing/processes/cluster.ts';

const cluster = await startCluster(t, { workers: ['grading'], neighbours: false });
const client = await attemptClient(cluster);

const choose = (...selectedOptionIds: string[]) => ({ selectedOptionIds });
const type = (textAnswer: string) => ({ textAnswer });
/** Builds answers to statements s1, s2, … from marks: T true, F false, - null, ? left out. */
const judge = (marks: string) => ({
  statementAnswers: [...marks].flatMap((mark, index) =>
    mark === '?' ? [] : [{ statementId: `s${index + 1}`, value: mark === '-' ? null : mark === 'T' }],
  ),
});
const many = (id: string, key: string[], change: object) =>
  choice(id, {
    type: 'MULTIPLE_CHOICE',
    options: options('a', 'b', 'c', 'd'),
    answerKey: { correctOptionIds: key },
    ...change,
  });
const rule = (mode: string, rest: object = {}, score = 1) => ({ score, scoringRule: { mode, ...rest } });
/** Builds options o1, o2, … that carry their own `isCorrect`. */
const marked = (...marks: boolean[]) => marks.map((isCorrect, index) => ({ id: `o${index + 1}`, isCorrect }));
const PENDING = null;
const four = [true, true, true, true];

/** Question, answer (null: unanswered), score, is it the full score?, name. Computed by hand from the contract. */
const GOLDEN: [(id: string) => object, object | null, number | null, boolean | null, string][] = [
  [(id) => choice(id, { score: 1.3 }), choose('a'), 1.3, true, 'EXACT right'],
  [(id) => choice(id, { score: 1.3 }), choose('a', 'a'), 1.3, true, 'selections count once'],
  [(id) => choice(id, { score: 1.3 }), choose('a'), 1.3, true, 'three times 1.3 is 3.9'],
  [(id) => choice(id), choose('b'), 0, false, 'EXACT wrong'],
  [(id) => choice(id), null, 0, false, 'EXACT unanswered'],
  [(id) => many(id, ['a', 'c'], {}), choose('c', 'a'), 1, true, 'EXACT in any order'],
  [(id) => many(id, ['a', 'c'], {}), choose('a', 'c', 'd'), 0, false, 'EXACT too many'],
  [(id) => statements(id, four, rule('EXACT')), judge('TTTT'), 1, true, 'EXACT statements'],
  [(id) => statements(id, four, rule('EXACT')), judge('TTT-'), 0, false, 'EXACT statements, one blank'],
  [(id) => many(id, ['a', 'b', 'c'], rule('PARTIAL', {}, 1)), choose('a'), 0.333333, false, 'PARTIAL third'],
  [
    (id) => many(id, ['a', 'b', 'c'], rule('PARTIAL', {}, 1)),
    choose('a', 'b'),
    0.666667,
    false,
    'PARTIAL rounds half up',
  ],
  [
    (id) => many(id, ['a', 'b'], rule('PARTIAL', {}, 1)),
    choose('a', 'b', 'c', 'd'),
    1,
    true,
    'PARTIAL everything ticked',
  ],
  [
    (id) => many(id, ['a', 'b', 'c'], rule('PARTIAL', { incorrectPenalty: 0.5 }, 3)),
    choose('a', 'd'),
    0.5,
    false,
    'PARTIAL penalty',
  ],
  [(id) => many(id, ['a'], rule('PARTIAL', { incorrectPenalty: 2 }, 1)), choose('b'), 0, false, 'PARTIAL floor 0'],
  [
    (id) => many(id, ['a'], rule('PARTIAL', { incorrectPenalty: 2, minScore: -0.5 }, 1)),
    choose('b'),
    -0.5,
    false,
    'PARTIAL floor below 0',
  ],
  [
    (id) => many(id, ['a'], rule('PARTIAL', { minScore: 0.2 }, 1)),
    choose(),
    0,
    false,
    'an empty selection is unanswered: 0',
  ],
  [
    (id) => many(id, ['a', 'b'], rule('PARTIAL', { maxScore: 4, incorrectPenalty: 1 }, 0.5)),
    choose('a', 'c'),
    0.125,
    false,
    'PARTIAL on its own scale',
  ],
  [
    (id) => statements(id, four, rule('PARTIAL', { incorrectPenalty: 0.5 }, 2)),
    judge('TTTF'),
    1,
    false,
    'PARTIAL statements',
  ],
  [
    (id) => statements(id, four, rule('PARTIAL', { incorrectPenalty: 0.5 }, 2)),
    judge('TTT-'),
    1.5,
    false,
    'PARTIAL, a blank is neither',
  ],
  ...['FFFF', 'TFFF', 'TTFF', 'TTTF', 'TTTT'].map(
    (marks, right): (typeof GOLDEN)[number] =>
      [
        (id) => statements(id, four, rule('THPT_TRUE_FALSE_LADDER', { incorrectPenalty: 9, minScore: 0.9 }, 2)),
        judge(marks),
        ([0, 0.2, 0.5, 1, 2] as const)[right] ?? 0,
        right === 4,
        `ladder ${right}`,
      ] as (typeof GOLDEN)[number],
  ),
  [(id) => statements(id, four), judge('TT-?'), 0.25, false, 'TRUE_FALSE_GROUP of 4 is the ladder'],
  [(id) => statements(id, [true, true, true]), judge('TTF'), 0.666667, false, 'TRUE_FALSE_GROUP of 3 is right/n'],
  [
    (id) => statements(id, [true, true, true], rule('TRUE_FALSE_GROUP', { ladder: [0, 0.2, 0.6, 1] })),
    judge('TTF'),
    0.6,
    false,
    'its own ladder',
  ],
  [(id) => statements(id, four), judge('----'), 0, false, 'all null is unanswered'],
  [(id) => shortText(id, ['Hà Nội']), type('  HÀ \u3000 nội '), 1, true, 'SHORT_TEXT folds space and case'],
  [(id) => shortText(id, ['Hà Nội']), type('Ha\u0300 No\u0323\u0302i'), 1, true, 'SHORT_TEXT in NFC'],
  [(id) => shortText(id, ['Hà Nội']), type('ha noi'), 0, false, 'accents count'],
  [(id) => shortText(id, ['STRASSE', 'x']), type('straße'), 1, true, 'full case folding, any text'],
  [
    (id) => shortText(id, ['NaCl'], rule('SHORT_TEXT', { caseSensitive: true })),
    type('nacl'),
    0,
    false,
    'caseSensitive',
  ],
  [
    (id) => shortText(id, ['pi'], { answerKey: { acceptedTexts: ['pi'], numericAnswers: [{ value: 3.14 }] } }),
    type('3,14'),
    1,
    true,
    'a number in a short text',
  ],
  [
    (id) =>
      shortText(id, ['pi'], {
        ...rule('EXACT'),
        answerKey: { acceptedTexts: ['pi'], numericAnswers: [{ value: 3.14 }] },
      }),
    type('3,14'),
    1,
    true,
    'EXACT text is SHORT_TEXT',
  ],
  [(id) => shortText(id, ['x']), type(' \n'), 0, false, 'white space is unanswered'],
  [
    (id) => shortText(id, ['3,14'], rule('SHORT_TEXT', { tolerance: 0 })),
    type('3.140'),
    1,
    true,
    'with a tolerance, be it 0, a text that is a number is one',
  ],
  [
    (id) => shortText(id, ['ba', '3,14'], rule('SHORT_TEXT', { tolerance: 0.01 })),
    type('3.1500001'),
    0,
    false,
    'and an exact one',
  ],
  [(id) => shortText(id, ['3,14']), type('3.14'), 0, false, 'without a tolerance it is a text'],
  [
    (id) => numeric(id, [{ value: 10 }], rule('NUMERIC', { tolerance: 0.1 })),
    type('10.1'),
    1,
    true,
    'tolerance is inclusive',
  ],
  [
    (id) => numeric(id, [{ value: 10 }], rule('NUMERIC', { tolerance: 0.1 })),
    type('10.1000001'),
    0,
    false,
    'and exact',
  ],
  [
    (id) => numeric(id, [{ value: 0.3 }], rule('NUMERIC', { tolerance: 0.1 })),
    type('0.2'),
    1,
    true,
    'in decimal arithmetic',
  ],
  [
    (id) => numeric(id, [{ value: -200 }], rule('NUMERIC', { tolerance: 0.1, toleranceType: 'RELATIVE' })),
    type('\u2212220'),
    1,
    true,
    'RELATIVE, U+2212',
  ],
  [
    (id) => numeric(id, [{ value: 5, tolerance: 0 }], rule('NUMERIC', { tolerance: 1 })),
    type('5.5'),
    0,
    false,
    'the answer’s own tolerance wins',
  ],
  [(id) => numeric(id, [{ value: 0.5 }]), type(' .5 '), 1, true, '.5'],
  [(id) => numeric(id, [{ value: 5 }]), type('5.'), 1, true, '5.'],
  [(id) => numeric(id, [{ value: 1 }]), type('1,000'), 1, true, 'a comma is the decimal mark'],
  [(id) => numeric(id, [{ value: 1000.5 }]), type('1.000,5'), 0, false, 'no thousands marks'],
  [(id) => numeric(id, [{ value: 1500 }]), type('+1.5E3'), 1, true, 'exponent'],
  [(id) => numeric(id, [{ value: 0 }]), type('  '), 0, false, 'blank never equals 0'],
  [
    (id) => numeric(id, [{ value: 2, tolerance: 1 }], rule('EXACT')),
    type('2.5'),
    1,
    true,
    'EXACT number: the tolerance that was sent counts',
  ],
  [
    (id) => shortText(id, ['3,14'], rule('EXACT', { tolerance: 0.05 })),
    type('3.1'),
    1,
    true,
    'also in a text, for an accepted number',
  ],
  [(id) => numeric(id, [{ value: 2 }], rule('EXACT')), type('2.0'), 1, true, 'EXACT number'],
  [
    (id) => choice(id, { options: marked(false, true), answerKey: undefined }),
    choose('o2'),
    1,
    true,
    'the marks of the options are the key',
  ],
  [
    (id) => choice(id, { ...rule('TRUE_FALSE_GROUP'), type: 'JUDGE', options: marked(true, false), answerKey: null }),
    { statementAnswers: [{ statementId: 'o2', value: false }] },
    0.5,
    false,
    'also of statements, in a type of another name',
  ],
  [(id) => many(id, ['a', 'c'], { type: 'PICK' }), choose('c', 'a'), 1, true, 'another type by EXACT: choices'],
  [(id) => shortText(id, ['x'], { ...rule('EXACT'), type: 'CLOZE' }), type('X'), 1, true, 'and without options a text'],
  [(id) => numeric(id, [{ value: 2 }], { type: 'FILL' }), type('2,0'), 1, true, 'another type by NUMERIC'],
  [(id) => essay(id, { type: 'LETTER', ...rule('MANUAL') }), type('x'), PENDING, null, 'another type by MANUAL'],
  [(id) => essay(id), type('words'), PENDING, null, 'ESSAY is pending'],
  [(id) => choice(id, rule('MANUAL')), choose('b'), PENDING, null, 'MANUAL fits any type'],
  [(id) => essay(id), null, 0, false, 'an unanswered ESSAY is graded 0'],
  [(id) => essay(id), type(' '), 0, false, 'so is a blank one'],
];

t.test('every scoring mode yields the scores computed by hand', async (t) => {
  const questions = GOLDEN.map(([make], index) => make(`q${index}`)) as Record<string, unknown>[];
  const { student, id, attempt } = await client.sitting({ questions });
  t.equal(attempt.maxScore, Number(questions.reduce((sum, { score }) => sum + Number(score), 0).toFixed(6)));
  for (const [index, [, answer, , , name]] of GOLDEN.entries()) {
    if (answer !== null) t.match(await student.save(id, { questionId: `q${index}`, answer }), { status: 200 }, name);
  }
  const { data } = await student.submit(id);
  const byQuestion = new Map(data.answers.map((one: { questionId: string }) => [one.questionId, one]));
  let total = 0;
  for (const [index, [, answer, score, isCorrect, name]] of GOLDEN.entries()) {
    total += Math.round((score ?? 0) * 1e6);
    const stored = byQuestion.get(`q${index}`);
    if (answer === null) t.equal(stored, undefined, `${name}: answers hold stored ones only`);
    else t.match(stored, { score, isCorrect }, name);
  }
  const correct = GOLDEN.filter(([, , , isCorrect]) => isCorrect === true).length;
  const pending = GOLDEN.filter(([, , score]) => score === null).length;
  t.match(data, {
    status: 'GRADED',
    totalScore: total / 1e6,
    correctCount: correct,
    pendingManualCount: pending,
    wrongCount: GOLDEN.length - correct - pending,
  });
  const { scorePercent } = (await student.result(id)).data;
  t.ok(Math.abs(scorePercent - (total / 1e6 / data.maxScore) * 100) < 1e-9, `${scorePercent} is not rounded`);
  t.equal((await client.admin().get(id)).data.questions[0].answerKey.correctOptionIds[0], 'a');
});

t.test('all right is all points and 100 percent in every reply, whatever the digits of a score', async (t) => {
  const scores = [...Array.from({ length: 6 }, () => 10 / 6), 5e-324, 0.0000001];
  const questions = scores.map((score, index) => choice(`q${index}`, { score }));
  const { student, id, attempt } = await client.sitting({ questions });
  t.equal(attempt.maxScore, 10.0000001);
  for (const index of scores.keys()) await student.save(id, { questionId: `q${index}`, answer: choose('a') });
  const { data } = await student.submit(id);
  t.match(data, {
    totalScore: 10.0000001,
    correctCount: 8,
    answers: scores.map((score) => ({ isCorrect: true, score })),
  });
  t.match((await student.result(id)).data, { scorePercent: 100, attempt: { totalScore: 10.0000001 } });
});
