import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import t from 'tap';
import { readAnswer } from '#shared/classifier/tasks/read-answer.ts';
import { TASK_KINDS } from '#shared/classifier/tasks/task.ts';
import { toGemini, toOpenAi } from './lowering.ts';
import { mockAnswer } from './mock.ts';

const SCHEMA = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  additionalProperties: false,
  required: ['items'],
  properties: {
    items: {
      type: 'array',
      minItems: 1,
      uniqueItems: true,
      items: {
        type: 'object',
        additionalProperties: false,
        required: ['id', 'kind'],
        properties: {
          id: { type: 'string', enum: ['q-1', 'q-2'] },
          kind: { const: 'x' },
          grade: { type: 'integer', enum: [1, 2] },
          topic: { anyOf: [{ type: 'string' }, { type: 'null' }] },
          note: { type: ['string', 'null'], format: 'uri', description: 'A word.', maxLength: 10 },
        },
      },
    },
  },
};

t.test('openai: all fields are required, none may be added, unsupported keywords become words', async (t) => {
  const { schema, strict } = toOpenAi(SCHEMA);
  t.equal(strict, true);
  t.strictSame(schema, {
    type: 'object',
    additionalProperties: false,
    required: ['items'],
    properties: {
      items: {
        type: 'array',
        minItems: 1,
        description: '(uniqueItems: true)',
        items: {
          type: 'object',
          additionalProperties: false,
          required: ['id', 'kind', 'grade', 'topic', 'note'],
          properties: {
            id: { type: 'string', enum: ['q-1', 'q-2'] },
            kind: { const: 'x' },
            grade: { type: ['integer', 'null'], enum: [1, 2, null] },
            topic: { anyOf: [{ anyOf: [{ type: 'string' }, { type: 'null' }] }, { type: 'null' }] },
            note: { type: ['string', 'null'], format: 'uri', description: 'A word. (maxLength: 10)' },
          },
        },
      },
    },
  });
});

t.test('gemini: null becomes a flag, a constant an enum, and enums contain texts only', async (t) => {
  t.strictSame(toGemini(SCHEMA), {
    type: 'object',
    required: ['items'],
    propertyOrdering: ['items'],
    properties: {
      items: {
        type: 'array',
        minItems: 1,
        description: '(uniqueItems: true)',
        items: {
          type: 'object',
          required: ['id', 'kind'],
          propertyOrdering: ['id', 'kind', 'grade', 'topic', 'note'],
          properties: {
            id: { type: 'string', enum: ['q-1', 'q-2'] },
            kind: { enum: ['x'], type: 'string' },
            grade: { type: 'integer', description: '(enum: [1,2])' },
            topic: { type: 'string', nullable: true },
            note: { type: 'string', description: 'A word.', maxLength: 10, nullable: true },
          },
        },
      },
    },
  });
});

t.test('an answer to the strict schema fits the whole schema once its nulls are removed', async (t) => {
  const check = new Ajv2020({ strict: false, strictNumbers: true, validateFormats: false }).compile(SCHEMA);
  const strict = { items: [{ id: 'q-1', kind: 'x', grade: null, topic: null, note: null }] };
  t.notOk(check(strict));
  const read = readAnswer(JSON.stringify(strict), SCHEMA);
  t.strictSame(read, { items: [{ id: 'q-1', kind: 'x', topic: null, note: null }] });
  t.ok(check(read));
});

const ajv = new Ajv2020({ strict: false, strictNumbers: true, validateFormats: false });

/** Schemas like those of tasks: objects of named fields, bounded texts, numbers and arrays, choices, nullable values. */
const { schema: schemas } = fc.letrec<{ schema: Record<string, unknown> }>((tie) => ({
  schema: fc.oneof(
    { maxDepth: 4 },
    fc.record({ type: fc.constant('string'), minLength: fc.nat(40), maxLength: fc.integer({ min: 40, max: 80 }) }),
    fc
      .tuple(fc.integer({ min: -50, max: 50 }), fc.nat(60))
      .map(([minimum, span]) => ({ type: 'integer', minimum, maximum: minimum + span })),
    fc.nat(20).map((maximum) => ({ type: 'number', minimum: 0, maximum })),
    fc.constantFrom({ type: 'boolean' }, { type: ['string', 'null'] }, { const: 7 }, { type: 'null' }),
    fc.array(fc.string({ minLength: 1 }), { minLength: 1, maxLength: 4 }).map((choices) => ({ enum: choices })),
    tie('schema').map((branch) => ({ anyOf: [branch, { type: 'null' }] })),
    fc.record({
      type: fc.constant('array'),
      items: tie('schema'),
      minItems: fc.nat(3),
      maxItems: fc.integer({ min: 3, max: 6 }),
    }),
    fc
      .dictionary(
        fc.constantFrom('score', 'options', 'questions', 'answerKey', 'confidence', 'items', 'text'),
        tie('schema'),
        { maxKeys: 5 },
      )
      .map((properties) => ({
        type: 'object',
        additionalProperties: false,
        required: Object.keys(properties),
        properties,
      })),
  ),
}));

t.test('a mock answer fits any schema and is always the same', async () => {
  fc.assert(
    fc.property(schemas, fc.constantFrom(...TASK_KINDS), fc.jsonValue(), (schema, kind, data) => {
      const answer = mockAnswer({ kind, data, schema });
      if (!ajv.validate(schema, answer)) throw new Error(`${JSON.stringify(answer)}: ${ajv.errorsText()}`);
      return JSON.stringify(answer) === JSON.stringify(mockAnswer({ kind, data, schema }));
    }),
  );
});

const text = { type: 'string' };
const fields = (properties: Record<string, unknown>) => ({
  type: 'object',
  required: Object.keys(properties),
  properties,
});
const list = (items: unknown, more = {}) => ({ type: 'array', items, ...more });

t.test('a mock answer has an item for each question that the data names, in order', async (t) => {
  const schema = fields({ items: list(fields({ questionId: text, subject: text })) });
  for (const data of [{ questionIds: ['q-2', 'q-1'] }, { questions: [{ id: 'q-2', content: 'x' }, { id: 'q-1' }] }]) {
    t.match(mockAnswer({ kind: 'classify', data, schema }), { items: [{ questionId: 'q-2' }, { questionId: 'q-1' }] });
  }
});

t.test('a mock answer has as many questions as wanted, each with a key among its options', async (t) => {
  const option = fields({ id: text, label: text, content: text });
  const schema = fields({
    questions: list(fields({ answerKey: list(text), type: text, options: list(option) }), { maxItems: 20 }),
  });
  const data = { count: 3, questionType: 'SINGLE_CHOICE', references: [{ id: 'r-1' }] };
  const { questions } = mockAnswer({ kind: 'generate', data, schema }) as { questions: unknown[] };
  t.equal(questions.length, 3);
  t.match(questions[0], {
    type: 'SINGLE_CHOICE',
    answerKey: ['A'],
    options: [{ id: 'A' }, { id: 'B' }, { id: 'C' }, { id: 'D' }],
  });
});

t.test('a mock score is no sum of parts that the schema does not admit', async (t) => {
  const parts = list(fields({ score: { type: 'integer', minimum: 1, maximum: 1 } }), { minItems: 2, maxItems: 2 });
  for (const bounds of [{ maximum: 1 }, { exclusiveMaximum: 2 }, { minimum: 3 }, { exclusiveMinimum: 2 }]) {
    const schema = fields({ items: parts, score: { type: 'number', ...bounds } });
    t.ok(ajv.validate(schema, mockAnswer({ kind: 'classify', data: {}, schema })), ajv.errorsText());
  }
  const whole = fields({ maxScore: { type: 'integer', maximum: 5 } });
  t.ok(ajv.validate(whole, mockAnswer({ kind: 'classify', data: { maxScore: 2.5 }, schema: whole })));
});

t.test('mock scores are within the maximum of each criterion and add up', async (t) => {
  const schema = fields({
    score: { type: 'number', minimum: 0, maximum: 10 },
    criteria: list(fields({ id: text, score: { type: 'number', minimum: 0 } })),
  });
  const data = {
    maxScore: 10,
    rubric: {
      criteria: [
        { id: 'c1', maxScore: 4 },
        { id: 'c2', maxScore: 6 },
      ],
    },
  };
  for (let essay = 0; essay < 30; essay++) {
    const answer = mockAnswer({ kind: 'grade', data: { ...data, essay }, schema }) as {
      score: number;
      criteria: [{ id: string; score: number }, { id: string; score: number }];
    };
    const [first, second] = answer.criteria;
    t.match([first.id, second.id], ['c1', 'c2']);
    t.ok(first.score <= 4 && second.score <= 6 && answer.score === first.score + second.score);
  }
});

t.test('the mock grants a criterion of a quarter point to some essays and not to others', async (t) => {
  const schema = fields({ criteria: list(fields({ id: text, score: { type: 'number', minimum: 0 } })) });
  const rubric = { criteria: [{ id: 'c1', maxScore: 0.25 }] };
  const scores = Array.from({ length: 30 }, (_, essay) => {
    const answer = mockAnswer({ kind: 'grade', data: { rubric, essay }, schema });
    return (answer as { criteria: [{ score: number }] }).criteria[0].score;
  });
  t.strictSame([...new Set(scores)].sort(), [0, 0.25]);
});
