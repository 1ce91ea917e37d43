import { Ajv2020 } from 'ajv/dist/2020.js';
import t from 'tap';
import { loadSchemas } from '#infra/schema/validator.ts';
import { mockAnswer } from '#shared/classifier/mock.ts';
import type { GeneratedQuestionType, GeneratePayload } from '#shared/generated/classifier.ts';
import { generateTask, readGeneration } from './generate.ts';

const TYPES = loadSchemas().document('classifier/generated-question-type').enum as GeneratedQuestionType[];
const validQuestion = loadSchemas().validator('classifier/generated-question');

const payload = (change: Partial<GeneratePayload> = {}): GeneratePayload => ({
  mode: 'fresh',
  subject: 'Toán',
  gradeLevel: '12',
  topic: 'Đạo hàm',
  questionType: 'SINGLE_CHOICE',
  difficulty: 'dễ',
  count: 3,
  language: 'vi',
  instructions: null,
  references: [],
  ...change,
});

t.test('for every question type, an answer that fits the schema becomes complete questions', async (t) => {
  for (const questionType of TYPES) {
    const wanted = payload({ questionType });
    const task = generateTask(wanted);
    const answer = mockAnswer(task);
    const ajv = new Ajv2020({ strict: false, strictNumbers: true });
    t.ok(ajv.validate(task.schema, answer), `${questionType}: ${ajv.errorsText()}`);
    const questions = readGeneration(wanted, answer)?.questions ?? [];
    t.equal(questions.length, 3, questionType);
    for (const question of questions) {
      t.strictSame(validQuestion(structuredClone(question)), [], questionType);
      const ids = question.options.map(({ id }) => id);
      for (const id of question.answerKey.correctOptionIds ?? []) t.ok(ids.includes(id), 'the key names an option');
      t.strictSame(question.answerKey.statements?.map(({ statementId }) => statementId) ?? ids, ids);
    }
    t.equal(new Set(questions.map(({ tempId }) => tempId)).size, 3);
  }
});

t.test('answers become ids, labels and keys; extra questions are dropped', async (t) => {
  const written = {
    content: ' 1 + 1 = ? ',
    explanation: 'Cộng',
    options: ['1', '2', '3', '4'],
    correctIndexes: [1, 1],
  };
  const read = readGeneration(payload({ count: 1 }), { questions: [written, { ...written, content: '2' }] });
  t.strictSame(read?.questions, [
    {
      tempId: 'q1',
      type: 'SINGLE_CHOICE',
      content: '1 + 1 = ?',
      contentText: '1 + 1 = ?',
      options: ['1', '2', '3', '4'].map((content, n) => ({ id: 'abcd'[n], label: 'ABCD'[n], content })),
      answerKey: { correctOptionIds: ['b'] },
      explanation: 'Cộng',
      difficulty: 'dễ',
    },
  ]);
  t.equal(readGeneration(payload(), { questions: [] }), null);
  const ajv = new Ajv2020({ strict: false, strictNumbers: true });
  const one = { ...written, correctIndexes: [1] };
  const { schema } = generateTask(payload({ count: 1 }));
  t.ok(ajv.validate(schema, { questions: [one, one] }), 'the schema accepts extra questions');
  t.notOk(ajv.validate(schema, { questions: [] }));
});

t.test('a question with two equal options makes no sense, and a question that is written twice is one', async (t) => {
  const { senseFaults } = generateTask(payload());
  const question = (content: string, options: string[]) => ({
    content,
    explanation: 'x',
    options,
    correctIndexes: [0],
  });
  const faults = (...options: string[]) =>
    senseFaults?.({ questions: [question('x', options)] }).map(({ path }) => path);
  t.strictSame(faults('2', '2 ', '3', '4'), ['/questions/0/options/1']);
  t.strictSame(faults('hòa', 'b', 'hòa'.normalize('NFD'), 'B'), ['/questions/0/options/2', '/questions/0/options/3']);
  t.strictSame(faults('1', '2', '3', '4'), []);
  const group = {
    content: 'x',
    explanation: 'x',
    statements: ['a', 'A'].map((content) => ({ content, isTrue: true })),
  };
  t.strictSame(
    senseFaults?.({ questions: [group] }).map(({ path }) => path),
    ['/questions/0/statements/1'],
  );

  const options = ['1', '2', '3', '4'];
  const questions = [question('Một', options), question('một ', options), question('Một', ['5', '2', '3', '4'])];
  const read = readGeneration(payload(), { questions })?.questions ?? [];
  t.strictSame(
    read.map(({ tempId, options: [first] }) => [tempId, first?.content]),
    [
      ['q1', '1'],
      ['q2', '5'],
    ],
  );
});

t.test('text of users is in the data, never in the instructions', async (t) => {
  const words = {
    topic: 'TOPIC-WORD',
    instructions: 'WISH-WORD',
    references: [{ id: 'r', content: 'REFERENCE-WORD' }],
  };
  const task = generateTask(payload({ mode: 'similar', ...words }));
  for (const word of ['TOPIC-WORD', 'WISH-WORD', 'REFERENCE-WORD']) {
    t.match(JSON.stringify(task.data), word);
    t.notMatch(task.instructions + JSON.stringify(task.schema), word);
  }
});
