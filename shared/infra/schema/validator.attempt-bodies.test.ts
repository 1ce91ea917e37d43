import t from 'tap';
import { loadSchemas } from './validator.ts';

const schemas = loadSchemas();
const save = schemas.validator('attempt/save-answer-request');
const event = schemas.validator('attempt/post-event-request');
const release = schemas.validator('attempt/results-released-request');

t.test('the limits of an answer', async (t) => {
  const at = (answer: object) => save({ questionId: 'q', answer }).map((fault) => fault.path);
  t.strictSame(at({ textAnswer: '😀'.repeat(100_000) }), [], 'characters are code points');
  t.strictSame(at({ textAnswer: 'x'.repeat(100_001) }), ['/answer/textAnswer']);
  t.strictSame(at({ textAnswer: 'a\ud800' }), ['/answer/textAnswer'], 'a lone surrogate cannot be stored as sent');
  t.strictSame(at({ selectedOptionIds: ['a', '\udc00'] }), ['/answer/selectedOptionIds/1']);
  t.strictSame(at({ statementAnswers: [{ statementId: 'a', value: null }] }), [], 'null judges nothing');
  t.strictSame(at({ statementAnswers: [{ statementId: 'a', value: 'true' }] }), ['/answer/statementAnswers/0/value']);
  const version = (clientVersion: unknown) => save({ questionId: 'q', textAnswer: '', clientVersion }).length;
  t.strictSame([0, 7, null, 2 ** 53 - 1].map(version), [0, 0, 0, 0]);
  t.strictSame([-1, 0.5, '1', 2 ** 53, Number.NaN].map(version), [1, 1, 1, 1, 1]);
});

t.test('metadata is free, small and finite', async (t) => {
  const metadata = { $set: 1, 'a.b': null, list: [null, { deep: true }] };
  const body = { type: 'TAB_HIDDEN', metadata: structuredClone(metadata) };
  t.strictSame(event(body), []);
  t.strictSame(body.metadata, metadata, 'stored as it is, nulls included');
  const sized = (bytes: number) => event({ type: 'TAB_HIDDEN', metadata: { a: 'é'.repeat((bytes - 8) / 2) } });
  t.strictSame(sized(8192), [], '{"a":""} is 8 bytes');
  t.strictSame(sized(8194), [{ path: '/metadata', message: 'must have at most 8192 bytes of JSON' }]);
  t.equal(event({ type: 'TAB_HIDDEN', metadata: { a: [JSON.parse('1e400')] } })[0]?.path, '/metadata');
  t.equal(event({ type: 'TAB_HIDDEN', metadata: [] })[0]?.path, '/metadata');
  t.equal(event({ type: 'START' })[0]?.path, '/type');
});

t.test('a release: version 1 and no draft', async (t) => {
  const base = {
    sourceService: 'exam-service',
    type: 'exam.results_released.v1',
    sourceEventId: 's',
    entity: 'Exam',
    entityId: 'e',
  };
  const at = (payload: unknown) => release({ ...base, payload }).map(({ path, message }) => `${path} ${message}`);
  t.strictSame(at({ schemaVersion: 1, status: 'PUBLISHED' }), []);
  t.strictSame(at(null), []);
  t.strictSame(at({ schemaVersion: 2 }), ['/payload/schemaVersion must be 1']);
  t.strictSame(at({ status: 'DRAFT' }), ['/payload/schemaVersion is required', '/payload/status must not be DRAFT']);
  t.strictSame(
    release({ ...base, entity: 'exam', sourceService: 'x' })
      .map((fault) => fault.path)
      .sort(),
    ['/entity', '/sourceService'],
  );
});
