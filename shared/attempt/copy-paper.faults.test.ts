import fc from 'fast-check';
import t from 'tap';
import { loadSchemas } from '#infra/schema/validator.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import { paperFaults } from './copy-paper.ts';

const validate = loadSchemas().validator('attempt/start-request');

function question(change: object = {}): object {
  return {
    questionId: 'q1',
    score: 1,
    type: 'SINGLE_CHOICE',
    options: [{ id: 'a' }],
    scoringRule: { mode: 'EXACT' },
    answerKey: { correctOptionIds: ['a'] },
    ...change,
  };
}

t.test('paper faults are returned beside schema faults, except for questions with a schema fault', async (t) => {
  const questions = [question({ score: 0, answerKey: {} }), question({ questionId: 'q2', answerKey: {} })];
  t.same(
    atOnce(
      paperFaults({ questions }, [
        { path: '/questions/0/score', message: 'must be > 0' },
        { path: '/exam', message: '' },
      ]),
    ),
    [{ path: '/questions/1/answerKey/correctOptionIds', message: 'must not be empty' }],
  );
  t.same(atOnce(paperFaults({ questions: [question({ answerKey: {} })] }, [{ path: '/questions', message: '' }])), []);
});

t.test('an accepted text that shows nothing is a fault', async (t) => {
  const acceptedTexts = ['x', ' ', '\u200b', '\ufeff \u2060'];
  const short = question({
    type: 'SHORT_TEXT',
    options: [],
    scoringRule: { mode: 'SHORT_TEXT' },
    answerKey: { acceptedTexts },
  });
  t.same(
    atOnce(paperFaults({ questions: [short] }, [])).map(({ path }) => path),
    [1, 2, 3].map((at) => `/questions/0/answerKey/acceptedTexts/${at}`),
  );
});

t.test('checking a paper accepts any value that the schema has refused', async () => {
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
  const broken = fc.tuple(field, fc.jsonValue({ maxDepth: 3 })).map(([name, value]) => question({ [name]: value }));
  const questions = fc.array(fc.oneof(fc.constant(question()), broken, fc.jsonValue()), { maxLength: 6 });
  const body = fc.oneof(fc.jsonValue(), fc.record({ questions: fc.oneof(questions, fc.jsonValue()) }));
  fc.assert(
    fc.property(body, (value) => {
      const known = validate(value);
      return known.length === 0 || Array.isArray(atOnce(paperFaults(value, known)));
    }),
    { numRuns: 500 },
  );
});
