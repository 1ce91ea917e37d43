import fc from 'fast-check';
import t from 'tap';
import { LARGE_BODY, type Route } from '#api/route.ts';
import { loadSchemas } from '#infra/schema/validator.ts';
import type { StartRequest } from '#shared/generated/attempt.ts';
import { isJsonObject } from '#shared/kernel/json.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import { parsedBody } from './parsed-body.ts';
import { mountRoute } from './route-table.ts';

const schemas = loadSchemas();
const start = { guards: [], body: { schema: 'attempt/start-request', maxBytes: LARGE_BODY } } as unknown as Route;

/** Opens a reader of starts. With `repeated`, it knows the questions that it has read. */
function openStarts(repeated?: string) {
  const route = { ...start, body: { ...start.body, ...(repeated === undefined ? {} : { repeated }) } } as Route;
  const mounted = mountRoute(route, schemas);
  return (text: string) => atOnce(parsedBody({ kind: 'read', bytes: Buffer.from(text) }, mounted));
}

const questionsOf = (body: ReturnType<ReturnType<typeof openStarts>>) =>
  body.kind === 'body' ? (body.value as StartRequest).questions : undefined;

/** Returns JSON of questions, longer than the shortest that is kept. */
function questionsText(last: string, space = ''): string {
  const question = { type: 'ESSAY', score: 1, content: `Câu "${last}" [ ] { } \\ ${'ễ'.repeat(400)}`, unknown: [1] };
  const questions = ['q1', 'q2', last].map((questionId) => ({ questionId, ...question, contentText: null }));
  return JSON.stringify(questions, null, space);
}

const EXAM =
  '"exam":{"id":"e","title":"Toán","status":"PUBLISHED","deliveryMode":"ONLINE","durationMinutes":9,"showResultMode":"MANUAL"}';
const ACCESS = '"access":{"assigned":true}';

t.test('the questions of a class are parsed for its first student alone', async (t) => {
  const read = openStarts('questions');
  const bodies = [`{${EXAM},"questions":${questionsText('a')},${ACCESS}}`, `{${ACCESS},"questions" :\n`].map(
    (text, index) => (index === 0 ? text : `${text}${questionsText('a')},"studentInfo":{"name":"An"},${EXAM}}`),
  );
  const [first, second] = bodies.map(read);
  t.equal(questionsOf(first as never)?.length, 3);
  t.equal(questionsOf(second as never), questionsOf(first as never), 'the same array');
  t.strictSame(second?.kind === 'body' && second.faults, []);
  t.match(second, { value: { studentInfo: { name: 'An' } } });
  const other = read(`{${EXAM},"questions":${questionsText('b')},${ACCESS}}`);
  t.not(questionsOf(other), questionsOf(first as never), 'another last question');
  t.equal(questionsOf(other)?.[2]?.questionId, 'b');
});

const member = fc.oneof(
  fc.constantFrom('a', 'b').map((last) => `"questions":${questionsText(last)}`),
  fc.constantFrom('a', 'b').map((last) => `"questions" : ${questionsText(last, '\t')}`),
  fc.constant('"questions":[]'),
  fc.constant(`"questions":${questionsText('a').replace('"score":1', '"score":-1')}`),
  fc.constant(`"studentInfo":{"questions":${questionsText('a')}}`),
  fc.constant(`"\\"questions":${questionsText('a')}`),
  fc.constant(`"questions":"${'x'.repeat(2_000)}"`),
);
const end = fc.oneof({ weight: 8, arbitrary: fc.constant('}') }, fc.constantFrom('', ']}', '}}'));
const body = fc.tuple(fc.array(member, { minLength: 1, maxLength: 2 }), fc.boolean(), end);

t.test('a body is read alike with and without known questions', async (t) => {
  let known = 0;
  fc.assert(
    fc.property(fc.array(body, { minLength: 1, maxLength: 4 }), (bodies) => {
      const [read, plain] = [openStarts('questions'), openStarts()];
      const seen = new Set<unknown>();
      for (const [members, isFirst, close] of bodies) {
        const whole = [EXAM, ACCESS];
        const text = `{${(isFirst ? [...members, ...whole] : [...whole, ...members]).join()}${close}`;
        const got = read(text);
        t.strictSame(got, plain(text), text.slice(0, 200));
        const value = got.kind === 'body' && isJsonObject(got.value) ? got.value.questions : undefined;
        if (Array.isArray(value) && seen.has(value)) known += 1;
        seen.add(value);
      }
    }),
    { numRuns: 300 },
  );
  t.ok(known > 0, 'some of them were known');
});
