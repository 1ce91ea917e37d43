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

/** Compiles a segment and the segments of all arrays below it. */
function compileAll(segment: Segment): void {
  segment.check();
  const shapes = [segment.shape];
  for (const { items, fields } of shapes) {
    if (items !== undefined) compileAll(items.segment);
    for (const field of fields?.values() ?? []) shapes.push(field.shape);
  }
}

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
