import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import t from 'tap';
import { identity, role } from '#api/http/guards/identity.ts';
import { loadSchemas } from '#infra/schema/validator.ts';
import { ERRORS, type ErrorCode } from '#shared/kernel/errors.ts';
import { codesOf, openApi, SERVER_CODES, unansweredCodes } from './openapi.ts';
import type { Guard, Route } from './route.ts';

type Json = Record<string, unknown>;

const schemas = loadSchemas();

function guard(overrides: Partial<Guard>): Guard {
  return { name: 'guard', codes: [], headers: [], check: () => undefined, ...overrides };
}

function route(overrides: Partial<Route>): Route {
  return {
    method: 'GET',
    path: '/v1/things',
    operation: 'listThings',
    summary: 'Lists things',
    guards: [],
    replies: [{ status: 200, schema: 'common/health', description: 'Things.' }],
    errors: [],
    handle: async () => ({ status: 200, data: {} }),
    ...overrides,
  };
}

const TOKEN = { name: 'metricsToken', header: 'bearer', description: 'Token of monitoring' };
const BEARER = guard({ proofs: [[{ scheme: TOKEN }]] });
const TAG = { name: 'Things', description: 'All things.' };
const START = route({
  method: 'POST',
  path: '/v1/exams/:examId/attempts',
  operation: 'startAttempt',
  summary: 'Start an attempt',
  description: 'Starts an attempt.',
  tag: TAG,
  params: { examId: 'Id of the exam' },
  guards: [
    identity(),
    role('STUDENT'),
    guard({
      codes: ['ATTEMPT_START_UNTRUSTED'],
      headers: [
        { name: 'x-source', required: false, description: 'Source' },
        { name: 'X-Source', required: true, description: 'Source' },
      ],
    }),
  ],
  body: { schema: 'attempt/start-request', maxBytes: 8_388_608 },
  replies: [
    { status: 200, schema: 'attempt/start-reply', description: 'Reused.' },
    { status: 201, schema: 'attempt/start-reply', description: 'Created.' },
  ],
  errors: ['EXAM_CLOSED', 'EXAM_OFFLINE', 'RATE_LIMITED'],
});
const SUBMIT = route({
  method: 'POST',
  path: '/v1/attempts/:attemptId/submit',
  operation: 'submitAttempt',
  summary: 'Submit an attempt',
  body: { schema: 'attempt/submit-request', maxBytes: 262_144 },
  replies: [{ status: 200, schema: 'attempt/attempt-detail', description: 'Graded.' }],
  errors: ['ATTEMPT_NOT_FOUND'],
});
const METRICS = route({
  path: '/metrics',
  operation: 'metrics',
  summary: 'Metrics',
  guards: [BEARER],
  replies: [{ status: 200, schema: 'common/metrics-text', description: 'Metrics.' }],
});
// Reply schemas that no other route of this test uses, so that some operation of ROUTES carries each schema.
const REST = ['attempt/student-list', 'attempt/admin-summary', 'attempt/handoff-reply', 'attempt/attempt-event-list'];
const ROUTES = [
  START,
  SUBMIT,
  METRICS,
  ...REST.map((schema, index) =>
    route({
      path: `/v1/rest/${index}`,
      operation: `rest${index}`,
      replies: [{ status: 200, schema, description: 'Rest.' }],
      errors: ['ATTEMPT_NOT_FOUND'],
    }),
  ),
];

const document = openApi({ routes: ROUTES, schemas, version: '1.2.3', title: 'examhall' }) as Json;

function at(path: string): unknown {
  return path.split(' ').reduce<unknown>((value, key) => (value as Json | undefined)?.[key], document);
}

function* references(value: unknown): Generator<string> {
  if (typeof value !== 'object' || value === null) return;
  for (const [key, member] of Object.entries(value)) {
    if (key === '$ref' && typeof member === 'string') yield member;
    else yield* references(member);
  }
}

t.test('the document is valid OpenAPI 3.1 to an independent linter', async (t) => {
  const dir = t.testdir({ 'redocly.yaml': 'extends: [spec]\nrules:\n  no-unused-components: error\n' });
  writeFileSync(`${dir}/openapi.json`, JSON.stringify(document));
  const cli = new URL('../node_modules/@redocly/cli/bin/cli.js', import.meta.url).pathname;
  const lint = spawnSync(process.execPath, [cli, 'lint', `${dir}/openapi.json`, '--config', `${dir}/redocly.yaml`], {
    encoding: 'utf8',
    env: { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' },
  });
  t.equal(lint.status, 0, `${lint.stdout}${lint.stderr}`);
});

t.test('every reference resolves, and no keyword is left that OpenAPI does not know', async (t) => {
  const names = new Set([...references(document)]);
  t.ok(names.size > 10);
  for (const name of names) t.ok(at(name.slice(2).replaceAll('/', ' ')), name);
  t.notMatch(JSON.stringify(document), /"\$id"|"\$schema"|x-bare/);
});

t.test('the document has every route with its parameters', async (t) => {
  const listed = Object.entries(document.paths as Json).flatMap(([path, item]) =>
    Object.keys(item as Json).map((method) => `${method.toUpperCase()} ${path.replace(/\{(\w+)\}/g, ':$1')}`),
  );
  t.same(listed.sort(), ROUTES.map(({ method, path }) => `${method} ${path}`).sort());
  const parameters = at('paths /v1/exams/{examId}/attempts post parameters') as Json[];
  t.same(
    parameters.map(({ name, in: place, required }) => `${place} ${name} ${required}`),
    ['path examId true', 'header X-Source true'],
    'a header that two guards read is one parameter, required when either demands it',
  );
  t.equal(parameters[0]?.description, 'Id of the exam');
  t.equal(
    at('paths /v1/exams/{examId}/attempts post description'),
    'Starts an attempt.\n\nAccess: `X-User-Id`, `X-User-Role` of `STUDENT`.',
  );
  t.strictSame(at('paths /v1/exams/{examId}/attempts post tags'), ['Things']);
  t.strictSame(document.tags, [TAG]);
});

t.test('a success has the envelope unless its schema is bare', async (t) => {
  t.match(at('paths /v1/exams/{examId}/attempts post responses 201 content application/json schema'), {
    required: ['success', 'data', 'message'],
    properties: { data: { $ref: '#/components/schemas/StartReply' } },
  });
  const metrics = at('paths /metrics get') as Json;
  t.strictSame(metrics.security, [{ metricsToken: [] }]);
  t.equal(metrics.parameters, undefined, 'a proof is a scheme, no parameter');
  t.match(at('paths /metrics get responses 200 content'), {
    'text/plain; version=0.0.4; charset=utf-8': { schema: { $ref: '#/components/schemas/MetricsText' } },
  });
});

t.test('an operation lists every status and code that it can return', async (t) => {
  for (const route of ROUTES) {
    const path = route.path.replace(/:(\w+)/g, '{$1}');
    const responses = at(`paths ${path} ${route.method.toLowerCase()} responses`) as Record<string, Json>;
    const found: string[] = [];
    for (const [status, response] of Object.entries(responses)) {
      const examples = (response.content as Record<string, Json>)['application/json']?.examples as Json | undefined;
      for (const [code, example] of Object.entries(examples ?? {})) {
        found.push(code);
        t.equal(String(ERRORS[code as ErrorCode].status), status, `${code} is listed under its own status`);
        const { value } = example as { value: unknown };
        t.strictSame(schemas.validator('common/failure-envelope')(value), [], `the example of ${code}`);
      }
    }
    t.same(found.sort(), codesOf(route));
  }
  const bodyless = codesOf(route({ method: 'GET' }));
  t.same(bodyless, [...SERVER_CODES.everywhere].sort(), 'no body, no parameter: nothing about them');
  t.ok(SERVER_CODES.body.every((code) => codesOf(START).includes(code)));
  t.ok(codesOf(START).includes('ROUTE_NOT_FOUND'), 'a malformed id is answered with ROUTE_NOT_FOUND');
});

t.test('a failure states the cause of each code, and has Retry-After only where a code may carry it', async (t) => {
  const responses = (errors: ErrorCode[]) => {
    const { paths } = openApi({ routes: [route({ errors })], schemas, version: '1', title: 't' }) as Json;
    return (paths as Record<string, Record<string, { responses: Record<string, Json> }>>)['/v1/things']?.get?.responses;
  };
  const limited = responses(['EVENT_LIMIT_REACHED'])?.[429];
  t.equal(limited?.description, `- \`EVENT_LIMIT_REACHED\`: ${ERRORS.EVENT_LIMIT_REACHED.cause}`);
  t.strictSame(Object.keys(limited?.headers as Json), ['X-Request-Id']);
  for (const code of ['RATE_LIMITED', 'AI_PROVIDER_TIMEOUT'] as const) {
    t.match(responses([code])?.[ERRORS[code].status], { headers: { 'Retry-After': Object } }, code);
  }
});

t.test('a failure that carries data describes its schema', async (t) => {
  const failing = route({ errors: ['ATTEMPT_ALREADY_OPEN', 'ATTEMPT_LOCKED'] });
  const failureData = { ATTEMPT_ALREADY_OPEN: 'attempt/open-attempt' };
  const told = (routes: Route[]) => openApi({ routes, schemas, version: '1.2.3', title: 'examhall' });
  t.match(told([{ ...failing, failureData }]), {
    paths: {
      '/v1/things': {
        get: {
          responses: {
            409: {
              content: {
                'application/json': {
                  schema: {
                    allOf: [
                      Object,
                      { properties: { data: { description: String, $ref: '#/components/schemas/OpenAttempt' } } },
                    ],
                  },
                },
              },
            },
          },
        },
      },
    },
  });
  t.throws(() => told([route({ failureData })]), { message: /^listThings names data of ATTEMPT_ALREADY_OPEN/ });
});

t.test('a body is required if its schema refuses the empty one', async (t) => {
  t.equal(at('paths /v1/exams/{examId}/attempts post requestBody required'), true);
  t.equal(at('paths /v1/attempts/{attemptId}/submit post requestBody required'), false);
});

t.test('two schemas of one name cannot both become components', async (t) => {
  const clash = { ...schemas, document: (id: string) => schemas.document(id.replace('other/', 'attempt/')) };
  const replies = ['attempt/attempt-event', 'other/attempt-event'].map((schema) => ({
    status: 200,
    schema,
    description: '.',
  }));
  t.throws(() => openApi({ routes: [route({ replies })], schemas: clash, version: '1', title: 't' }), /share the name/);
});

t.test('unansweredCodes finds a code that no route returns', async (t) => {
  t.ok(unansweredCodes(ROUTES).includes('SCORE_OUT_OF_RANGE'));
  const all = route({ errors: Object.keys(ERRORS) as ErrorCode[] });
  t.strictSame(unansweredCodes([all]), []);
  const server = Object.values(SERVER_CODES).flat();
  t.ok(server.every((code) => !unansweredCodes(ROUTES).includes(code)));
});

t.test('an operation has the recorded request and replies as its examples', async (t) => {
  const examples = { startAttempt: { request: { exam: {} }, replies: { 201: { success: true } } } };
  const { paths } = openApi({ routes: [START], schemas, version: '1', title: 't', examples }) as { paths: Json };
  t.match(paths, {
    '/v1/exams/{examId}/attempts': {
      post: {
        requestBody: { content: { 'application/json': { example: { exam: {} } } } },
        responses: {
          200: { content: { 'application/json': { example: undefined } } },
          201: { content: { 'application/json': { example: { success: true } } } },
        },
      },
    },
  });
});

t.test('two tags of one name must have one description', async (t) => {
  const routes = [START, route({ tag: { ...TAG, description: 'Others.' } })];
  t.throws(() => openApi({ routes, schemas, version: '1', title: 't' }), /two tags are named Things/);
});
