import { Ajv2020 } from 'ajv/dist/2020.js';
import t from 'tap';
import { CLIENT_EVENT_TYPES, EVENT_TYPES } from '#shared/attempt/attempt.ts';
import { QUESTION_TYPES, SCORING_MODES } from '#shared/attempt/question.ts';
import { redactAttempt, studentListItem } from '#shared/attempt/redact.ts';
import { DELIVERY_STATUSES } from '#shared/notification/delivery.ts';
import { sampleAnswer, sampleAttempt, samplePaper } from '#testing/stored/sample-attempt.ts';
import { type Segment, segmentCompiler } from './segment.ts';
import { loadSchemas } from './validator.ts';

const schemas = loadSchemas();
const compile = segmentCompiler();

/** Compiles a segment and the segments of all arrays below it. */
function compileAll(segment: Segment): void {
  segment.check();
  const shapes = [segment.shape];
  for (const { items, fields } of shapes) {
    if (items !== undefined) compileAll(items.segment);
    for (const field of fields?.values() ?? []) shapes.push(field.shape);
  }
}

t.test('every schema file is valid JSON Schema 2020-12, has a description and compiles in strict mode', async (t) => {
  const ajv = new Ajv2020({ strict: false, strictNumbers: true });
  for (const id of schemas.ids) {
    const document = schemas.document(id);
    t.ok(ajv.validateSchema(document), `${id}: ${ajv.errorsText()}`);
    t.ok(document.description, `${id} has a description`);
    t.type(schemas.validator(id), 'function', id);
    t.doesNotThrow(() => compileAll(compile(schemas.resolved(id))), id);
  }
});

t.test('the enums of the schemas equal the constants of the rules', async (t) => {
  const words = (id: string) => schemas.document(id).enum;
  t.strictSame(schemas.document('attempt/question-type').examples, [...QUESTION_TYPES]);
  t.strictSame(words('attempt/scoring-mode'), [...SCORING_MODES]);
  t.same([...(words('attempt/event-type') ?? [])].sort(), [...EVENT_TYPES].sort());
  t.strictSame(words('notification/delivery-status'), [...DELIVERY_STATUSES]);
  t.same([...(words('attempt/client-event-type') ?? [])].sort(), [...CLIENT_EVENT_TYPES].sort());
});

t.test('the replies of the rules match their schemas', async (t) => {
  const now = new Date('2026-05-04T03:30:00.000Z');
  const attempt = sampleAttempt({ answers: { q0: sampleAnswer({ selected: ['a'] }) } });
  const [paper, events] = [samplePaper({}), attempt.events];
  const detail = schemas.validator('attempt/attempt-detail');
  for (const viewer of [
    { id: 'student-1', role: 'STUDENT' },
    { id: 'admin-1', role: 'ADMIN' },
  ] as const) {
    t.strictSame(detail(redactAttempt({ attempt, paper, events }, viewer, now)), [], viewer.role);
  }
  t.strictSame(schemas.validator('attempt/student-list')([studentListItem(attempt, now)]), []);
});

const save = schemas.validator('attempt/save-answer-request');
const event = schemas.validator('attempt/post-event-request');
const release = schemas.validator('attempt/results-released-request');

t.test('the schema of a save limits texts, options, statements and versions', async (t) => {
  const at = (answer: object) => save({ questionId: 'q', answer }).map((fault) => fault.path);
  t.strictSame(at({ textAnswer: '😀'.repeat(100_000) }), [], 'characters are code points');
  t.strictSame(at({ textAnswer: 'x'.repeat(100_001) }), ['/answer/textAnswer']);
  t.strictSame(at({ textAnswer: 'a\ud800' }), ['/answer/textAnswer'], 'a lone surrogate cannot be stored as sent');
  t.strictSame(at({ selectedOptionIds: ['a', '\udc00'] }), ['/answer/selectedOptionIds/1']);
  t.strictSame(at({ statementAnswers: [{ statementId: 'a', value: null }] }), [], 'null leaves a statement open');
  t.strictSame(at({ statementAnswers: [{ statementId: 'a', value: 'true' }] }), ['/answer/statementAnswers/0/value']);
  const version = (clientVersion: unknown) => save({ questionId: 'q', textAnswer: '', clientVersion }).length;
  t.strictSame([0, 7, null, 2 ** 53 - 1].map(version), [0, 0, 0, 0]);
  t.strictSame([-1, 0.5, '1', 2 ** 53, Number.NaN].map(version), [1, 1, 1, 1, 1]);
});

t.test('null members of an answer are kept, so that three of them can mean an empty answer', async (t) => {
  const members = { selectedOptionIds: null, statementAnswers: null, textAnswer: null };
  const body = { questionId: 'q', ...members, answer: { ...members }, sourceTabId: null };
  t.strictSame(save(body), []);
  t.strictSame(body, { questionId: 'q', ...members, answer: members } as unknown);
});

t.test('student info is any JSON object of up to 16 KiB and 8 levels, and is kept unchanged', async (t) => {
  const validate = schemas.validator('attempt/start-request');
  const at = (studentInfo: unknown) =>
    validate({ exam: {}, access: {}, questions: [], studentInfo }).filter(({ path }) =>
      path.startsWith('/studentInfo'),
    );
  const info = { $set: 1, 'a.b': null, list: [null, { deep: true }] };
  const sent = structuredClone(info);
  t.strictSame(at(sent), []);
  t.strictSame(sent, info, 'nulls included');
  t.strictSame(at({ a: 'é'.repeat(8_188) }), [], '{"a":""} is 8 bytes');
  const tooLong = [{ path: '/studentInfo', message: 'must have at most 16384 bytes of JSON' }];
  t.strictSame(at({ a: `x${'é'.repeat(8_188)}` }), tooLong);
  t.strictSame(at({ a: Array.from({ length: 1_000_000 }, () => 0) }), tooLong, 'a list of any length');
  const nested = (levels: number): unknown => (levels === 1 ? {} : { a: [nested(levels - 2)] });
  t.strictSame(at(nested(7)), []);
  t.strictSame(at({ a: nested(7) }), [], 'the object itself is the first level');
  const tooDeep = [{ path: '/studentInfo', message: 'must be nested at most 8 levels deep' }];
  t.strictSame(at(nested(9)), tooDeep);
  for (const other of [[], 'An', 7]) t.equal(at(other)[0]?.path, '/studentInfo');
  t.equal(at({ a: JSON.parse('1e400') })[0]?.path, '/studentInfo');
});

t.test('event metadata is any JSON object of finite numbers, up to 8 KiB', async (t) => {
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

t.test('the schema of a release requires version 1 and refuses drafts', async (t) => {
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
