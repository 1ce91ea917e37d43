import fc from 'fast-check';
import t from 'tap';
import { loadSchemas } from '#infra/schema/validator.ts';
import { isRejection } from '#shared/kernel/errors.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import { copyPaper, paperFaults, type QuestionInput } from './copy-paper.ts';

const options = (...ids: string[]) => ids.map((id) => ({ id, label: id, content: id }));

const single: QuestionInput = {
  questionId: 'one',
  score: 1,
  type: 'SINGLE_CHOICE',
  content: 'c',
  contentText: 't',
  options: options('a', 'b'),
  scoringRule: { mode: 'EXACT' },
  answerKey: { correctOptionIds: ['a'] },
};
const judged = (...ids: string[]) => ids.map((statementId) => ({ statementId, value: true }));
const group: QuestionInput = {
  ...single,
  type: 'TRUE_FALSE_GROUP',
  options: options('a', 'b', 'c', 'd'),
  scoringRule: { mode: 'THPT_TRUE_FALSE_LADDER' },
  answerKey: { statements: judged('a', 'b', 'c', 'd') },
};
const short: QuestionInput = {
  ...single,
  type: 'SHORT_TEXT',
  options: null,
  scoringRule: { mode: 'SHORT_TEXT' },
  answerKey: { acceptedTexts: ['x'] },
};
const numeric: QuestionInput = {
  ...short,
  type: 'NUMERIC',
  scoringRule: { mode: 'NUMERIC' },
  answerKey: { numericAnswers: [{ value: 1 }] },
};

function faults(...questions: QuestionInput[]): string[] {
  const copied = atOnce(copyPaper(questions));
  if (!isRejection(copied)) return [];
  t.equal(copied.rejected, 'VALIDATION_FAILED');
  return (copied.details ?? []).map(({ path }) => path);
}

t.test('copying a paper copies the named fields and drops all others', async (t) => {
  const sent = {
    ...single,
    id: 'id-1',
    hint: 'drop me',
    options: [{ id: 'a', label: 'A', content: 'x', isHint: true }, ...options('b')],
    optionOrder: ['b', 'a'],
    scoringRule: { mode: 'EXACT' as const, maxScore: null, secret: 1 },
    answerKey: { correctOptionIds: ['a'], note: 'drop me' },
  };
  t.strictSame(atOnce(copyPaper([sent])), {
    paper: {
      questions: [
        {
          id: 'id-1',
          examQuestionId: null,
          questionId: 'one',
          questionVersionId: null,
          score: 1,
          type: 'SINGLE_CHOICE',
          content: 'c',
          contentText: 't',
          options: [{ id: 'a', label: 'A', content: 'x' }, ...options('b')],
          optionOrder: [1, 0],
          scoringRule: { mode: 'EXACT' },
          answerKey: { correctOptionIds: ['a'] },
        },
      ],
    },
  });
});

t.test('every fitting combination of type and mode is accepted with its own key', async (t) => {
  const fitting: QuestionInput[] = [
    single,
    { ...single, scoringRule: { mode: 'PARTIAL', minScore: -1, maxScore: 2 } },
    { ...single, type: 'MULTIPLE_CHOICE', answerKey: { correctOptionIds: ['a', 'b'] } },
    { ...single, scoringRule: { mode: 'MANUAL' }, answerKey: null },
    group,
    { ...group, scoringRule: { mode: 'EXACT' } },
    { ...group, scoringRule: { mode: 'PARTIAL' } },
    {
      ...group,
      options: options('a'),
      scoringRule: { mode: 'TRUE_FALSE_GROUP', ladder: [0, 1] },
      answerKey: { statements: judged('a') },
    },
    short,
    { ...short, answerKey: { numericAnswers: [{ value: 1, tolerance: null }] } },
    { ...short, scoringRule: { mode: 'EXACT' } },
    { ...short, scoringRule: { mode: 'NUMERIC' }, answerKey: { numericAnswers: [{ value: 1 }] } },
    numeric,
    { ...numeric, scoringRule: { mode: 'EXACT' } },
    { ...short, type: 'ESSAY', scoringRule: { mode: 'ESSAY' }, answerKey: {} },
    { ...short, type: 'ESSAY', scoringRule: { mode: 'MANUAL' }, answerKey: null },
    { ...numeric, scoringRule: { mode: 'MANUAL' }, answerKey: null },
  ];
  for (const question of fitting) {
    t.strictSame(faults(question), [], `${question.type} ${question.scoringRule?.mode}`);
  }
});

t.test('only an essay needs no rule, and an empty order of options is absent', async (t) => {
  const { scoringRule: _rule, ...bare } = single;
  t.strictSame(faults({ ...bare, type: 'ESSAY', options: [], answerKey: null }), []);
  t.match(atOnce(copyPaper([{ ...bare, type: 'ESSAY', scoringRule: null }])), {
    paper: { questions: [{ scoringRule: { mode: 'MANUAL' } }] },
  });
  t.strictSame(faults(bare), ['/questions/0/scoringRule']);
  t.strictSame(faults({ ...bare, type: 'OTHER' }), ['/questions/0/scoringRule']);
  t.match(atOnce(copyPaper([{ ...single, optionOrder: [] }])), { paper: { questions: [{ optionOrder: null }] } });
});

t.test('a question of an unknown type follows the rules of its mode and keeps its type', async (t) => {
  const other = (question: QuestionInput, name = 'constructor'): QuestionInput => ({ ...question, type: name });
  const numbers = { numericAnswers: [{ value: 1 }] };
  const fitting: QuestionInput[] = [
    other(group),
    other({ ...group, scoringRule: { mode: 'TRUE_FALSE_GROUP' } }),
    other(short),
    other(numeric),
    other({ ...short, scoringRule: { mode: 'ESSAY' }, answerKey: null }),
    other({ ...single, scoringRule: { mode: 'MANUAL' }, answerKey: null }),
    other(single),
    other(
      { ...single, scoringRule: { mode: 'PARTIAL' }, answerKey: { correctOptionIds: ['a', 'b'] } },
      'single_choice',
    ),
    other({ ...short, scoringRule: { mode: 'EXACT' } }),
    other({ ...short, scoringRule: { mode: 'PARTIAL' } }),
  ];
  for (const question of fitting) {
    const copied = atOnce(copyPaper([question]));
    t.match(copied, { paper: { questions: [{ type: question.type }] } }, `${question.scoringRule?.mode}`);
  }
  const key = (question: QuestionInput, answerKey: QuestionInput['answerKey']) =>
    faults(other({ ...question, answerKey }));
  t.strictSame(key(group, { statements: judged('a') }), ['/questions/0/answerKey/statements']);
  t.strictSame(key(short, {}), ['/questions/0/answerKey/acceptedTexts']);
  t.strictSame(key(numeric, { acceptedTexts: ['1'] }), ['/questions/0/answerKey/numericAnswers']);
  t.strictSame(key(single, { acceptedTexts: ['a'] }), ['/questions/0/answerKey/correctOptionIds']);
  for (const mode of ['EXACT', 'PARTIAL'] as const) {
    t.strictSame(key({ ...short, scoringRule: { mode } }, numbers), [], `${mode}: numbers are the key of a text too`);
    t.strictSame(key({ ...short, scoringRule: { mode } }, {}), ['/questions/0/answerKey/acceptedTexts']);
  }
});

t.test('a question of 0 points is accepted as practice', async (t) => {
  t.strictSame(faults({ ...single, score: 0 }), []);
  t.strictSame(faults({ ...single, score: 0, scoringRule: { mode: 'PARTIAL', minScore: -1 } }), []);
  t.strictSame(faults({ ...single, score: 0, scoringRule: { mode: 'PARTIAL', minScore: 0.5 } }), [
    '/questions/0/scoringRule/minScore',
  ]);
});

t.test('a mode that does not fit its type is refused', async (t) => {
  const misfits: QuestionInput[] = [
    { ...single, scoringRule: { mode: 'TRUE_FALSE_GROUP' } },
    { ...single, scoringRule: { mode: 'ESSAY' } },
    { ...group, scoringRule: { mode: 'NUMERIC' } },
    { ...short, scoringRule: { mode: 'PARTIAL' } },
    { ...numeric, scoringRule: { mode: 'SHORT_TEXT' } },
    { ...short, type: 'ESSAY', scoringRule: { mode: 'EXACT' } },
  ];
  for (const question of misfits) t.strictSame(faults(question), ['/questions/0/scoringRule/mode']);
});

t.test('an answer key that cannot grade its question is refused', async (t) => {
  const key = (question: QuestionInput, answerKey: QuestionInput['answerKey']) => faults({ ...question, answerKey });
  t.strictSame(key(single, null), ['/questions/0/answerKey/correctOptionIds']);
  t.strictSame(key(single, { correctOptionIds: [] }), ['/questions/0/answerKey/correctOptionIds']);
  t.strictSame(key(single, { correctOptionIds: ['a', 'z'] }).toSorted(), [
    '/questions/0/answerKey/correctOptionIds',
    '/questions/0/answerKey/correctOptionIds/1',
  ]);
  t.strictSame(key(single, { correctOptionIds: ['a', 'b'] }), ['/questions/0/answerKey/correctOptionIds']);
  t.strictSame(key(group, { statements: judged('a', 'b', 'c') }), ['/questions/0/answerKey/statements']);
  t.strictSame(key(group, { statements: [] }), ['/questions/0/answerKey/statements']);
  t.strictSame(key(group, { statements: judged('a', 'b', 'c', 'd', 'd') }), [
    '/questions/0/answerKey/statements/4/statementId',
  ]);
  t.strictSame(key(group, { statements: judged('a', 'b', 'c', 'd', 'z') }), [
    '/questions/0/answerKey/statements/4/statementId',
  ]);
  t.strictSame(key(short, { acceptedTexts: [] }), ['/questions/0/answerKey/acceptedTexts']);
  t.strictSame(key(short, { acceptedTexts: ['x', ' \u00a0'] }), ['/questions/0/answerKey/acceptedTexts/1']);
  t.strictSame(key(numeric, { acceptedTexts: ['1'] }), ['/questions/0/answerKey/numericAnswers']);
  t.strictSame(faults({ ...short, scoringRule: { mode: 'NUMERIC' } }), ['/questions/0/answerKey/numericAnswers']);
});

t.test('a ladder must fit the mode and the number of statements', async (t) => {
  const five = options('a', 'b', 'c', 'd', 'e');
  t.strictSame(faults({ ...group, options: five, answerKey: { statements: judged('a', 'b', 'c', 'd', 'e') } }), [
    '/questions/0/options',
  ]);
  t.strictSame(faults({ ...group, scoringRule: { mode: 'THPT_TRUE_FALSE_LADDER', ladder: [0, 0, 0, 0, 1] } }), [
    '/questions/0/scoringRule/ladder',
  ]);
  t.strictSame(faults({ ...group, scoringRule: { mode: 'TRUE_FALSE_GROUP', ladder: [0, 1] } }), [
    '/questions/0/scoringRule/ladder',
  ]);
});

t.test('any points are accepted whose totals and percentages JSON can hold', async (t) => {
  t.strictSame(faults({ ...single, scoringRule: { mode: 'PARTIAL', minScore: 1.5 } }), [
    '/questions/0/scoringRule/minScore',
  ]);
  t.strictSame(faults({ ...single, scoringRule: { mode: 'PARTIAL', maxScore: 2, minScore: 2 } }), []);
  const two = { ...single, questionId: 'two' };
  for (const score of [Number.MIN_VALUE, 10 / 3, 1e10, Number.MAX_VALUE]) {
    t.strictSame(faults({ ...single, score }), [], `${score}`);
  }
  const large = { mode: 'PARTIAL', maxScore: 1e300, incorrectPenalty: 1e301, minScore: -1e302 } as const;
  t.strictSame(faults({ ...single, scoringRule: large }), []);
  t.strictSame(faults({ ...single, score: Number.MAX_VALUE }, { ...two, score: 1e300 }), ['/questions'], 'the sum');
  const penal = { mode: 'PARTIAL', maxScore: 1e-9, minScore: -1 } as const;
  t.strictSame(faults({ ...single, score: 1e298, scoringRule: penal }), []);
  t.strictSame(faults({ ...single, score: 1e300, scoringRule: penal }), ['/questions'], 'the lowest total');
  const tiny = { mode: 'PARTIAL', maxScore: 1e-307, minScore: -1 } as const;
  t.strictSame(faults({ ...single, scoringRule: tiny }), ['/questions'], 'the lowest percentage');
  t.strictSame(faults({ ...single, score: 0, scoringRule: { mode: 'PARTIAL', minScore: -1 } }), [], 'practice');
});

t.test('names that two questions or two options share are refused', async (t) => {
  const two = { ...single, questionId: 'two' };
  t.strictSame(faults(single, single), ['/questions/1/questionId']);
  t.strictSame(faults({ ...single, id: 'x' }, { ...two, id: 'x' }), ['/questions/1/id']);
  t.strictSame(faults({ ...single, id: 'two' }, two), ['/questions/0/id']);
  t.strictSame(faults({ ...single, id: 'one' }, { ...two, id: 'two' }), [], "a question's own two names may be equal");
  t.strictSame(faults({ ...single, options: options('a', 'b', 'a') }), ['/questions/0/options/2/id']);
});

t.test('an option order that is not a permutation is refused', async (t) => {
  for (const optionOrder of [['a'], ['a', 'a'], ['a', 'z'], ['a', 'b', 'b']]) {
    t.strictSame(faults({ ...single, optionOrder }), ['/questions/0/optionOrder'], optionOrder.join());
  }
});

t.test('copying a paper returns every fault of every question at once', async (t) => {
  const broken = { ...single, optionOrder: ['a'], answerKey: {} };
  const second = { ...short, questionId: 'two', answerKey: { acceptedTexts: [' '] } };
  t.strictSame(faults(broken, second), [
    '/questions/0/optionOrder',
    '/questions/0/answerKey/correctOptionIds',
    '/questions/1/answerKey/acceptedTexts/0',
  ]);
  t.strictSame(faults(), ['/questions']);
});

t.test('paper faults are returned beside schema faults, except for questions with a schema fault', async (t) => {
  const questions = [
    { ...single, score: 0, answerKey: {} },
    { ...single, questionId: 'two', answerKey: {} },
  ];
  t.same(
    atOnce(
      paperFaults({ questions }, [
        { path: '/questions/0/score', message: 'must be > 0' },
        { path: '/exam', message: '' },
      ]),
    ),
    [{ path: '/questions/1/answerKey/correctOptionIds', message: 'must not be empty' }],
  );
  t.same(atOnce(paperFaults({ questions: [{ ...single, answerKey: {} }] }, [{ path: '/questions', message: '' }])), []);
});

t.test('an accepted text that shows nothing is a fault', async (t) => {
  const acceptedTexts = ['x', ' ', '\u200b', '\ufeff \u2060'];
  const unseen = { ...short, answerKey: { acceptedTexts } };
  t.same(
    atOnce(paperFaults({ questions: [unseen] }, [])).map(({ path }) => path),
    [1, 2, 3].map((at) => `/questions/0/answerKey/acceptedTexts/${at}`),
  );
});

t.test('checking a paper accepts any value that the schema has refused', async () => {
  const validate = loadSchemas().validator('attempt/start-request');
  const field = fc.constantFrom(
    'id',
    'questionId',
    'orderIndex',
    'score',
    'type',
    'options',
    'optionOrder',
    'scoringRule',
    'answerKey',
  );
  const broken = fc.tuple(field, fc.jsonValue({ maxDepth: 3 })).map(([name, value]) => ({ ...single, [name]: value }));
  const questions = fc.array(fc.oneof(fc.constant(single), broken, fc.jsonValue()), { maxLength: 6 });
  const body = fc.oneof(fc.jsonValue(), fc.record({ questions: fc.oneof(questions, fc.jsonValue()) }));
  fc.assert(
    fc.property(body, (value) => {
      const known = validate(value);
      return known.length === 0 || Array.isArray(atOnce(paperFaults(value, known)));
    }),
    { numRuns: 500 },
  );
});
