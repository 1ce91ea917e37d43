import { Ajv2020 } from 'ajv/dist/2020.js';
import t from 'tap';
import { readAnswer } from '#shared/classifier/tasks/read-answer.ts';
import { toGemini, toOpenAi } from './lowering.ts';

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
