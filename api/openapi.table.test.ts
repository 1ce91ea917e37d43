import { spawnSync } from 'node:child_process';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import t from 'tap';
import { loadSchemas } from '#infra/schema/validator.ts';
import { allRoutes } from '#testing/doors/all-routes.ts';
import { openApi, unansweredCodes } from './openapi.ts';
import { readExamples } from './openapi-examples.ts';
import { requirementsOf } from './openapi-security.ts';

type Json = Record<string, unknown>;

interface Operation {
  operationId: string;
  summary?: string;
  description?: string;
  tags?: string[];
  parameters?: { name: string; description?: string }[];
  requestBody?: { content: Record<string, Content> };
  responses: Record<string, { description?: string; content?: Record<string, Content> }>;
}

interface Content {
  example?: unknown;
}

/** The ruleset of the linter. A rule that is switched off has its reason beside it. */
const RULES = 'extends: [recommended]\n';

const routes = allRoutes();
const examples = readExamples();
const document = openApi({ routes, schemas: loadSchemas(), version: '1.0.0', title: 'examhall', examples }) as Json & {
  paths: Record<string, Record<string, Operation>>;
  tags: { name: string; description?: string }[];
};
const operations = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]) => ({ pointer: `/paths/${escaped(path)}/${method}`, ...operation })),
);

/** Returns a key as part of a JSON pointer within a URI. */
function escaped(key: string): string {
  return encodeURIComponent(key.replaceAll('~', '~0').replaceAll('/', '~1'));
}

t.test('every route that drops fields of its body names them in its replies, and no other route does', async (t) => {
  const schemas = loadSchemas();
  const drops = ({ body }: (typeof routes)[number]) =>
    body !== undefined && schemas.document(body.schema)['x-unknown-fields'] === 'dropped';
  for (const route of routes) {
    const naming = route.replies.map(({ schema }) => schemas.document(schema).properties?.ignored !== undefined);
    t.strictSame(
      naming,
      naming.map(() => drops(route)),
      route.operation,
    );
  }
  const dropping = routes.filter(drops).map(({ operation }) => operation);
  t.strictSame(dropping.sort(), [
    'createWeakTopicAlert',
    'handOffGrade',
    'releaseResults',
    'takeNotificationEvent',
    'takeWeakTopicAlert',
  ]);
});

t.test('a route or the server returns every code of the catalogue', async (t) => {
  // This code appears only in the `error` of a job and of its questions, never as a reply.
  t.strictSame(unansweredCodes(routes), ['AI_QUESTION_CONTEXT_FAILED']);
});

t.test('the document of the mounted table satisfies the OpenAPI linter', async (t) => {
  const dir = t.testdir({ 'redocly.yaml': RULES, 'openapi.json': JSON.stringify(document) });
  const cli = new URL('../node_modules/@redocly/cli/bin/cli.js', import.meta.url).pathname;
  const lint = spawnSync(
    process.execPath,
    [cli, 'lint', `${dir}/openapi.json`, '--config', `${dir}/redocly.yaml`, '--format', 'json'],
    { encoding: 'utf8', env: { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' } },
  );
  t.equal(lint.status, 0, lint.stderr);
  const { problems } = JSON.parse(lint.stdout) as { problems: { ruleId: string; message: string }[] };
  t.strictSame(
    problems.map(({ ruleId, message }) => `${ruleId}: ${message}`),
    // They document what passes inside the service.
    ['Request', 'Result'].map((one) => `no-unused-components: Component: "AITask${one}Envelope" is never used.`),
  );
});

t.test('the envelopes of tasks are in the document, with exactly the payload of their kind', async (t) => {
  const { schemas } = document.components as { schemas: Record<string, { oneOf?: { required: string[] }[] }> };
  for (const name of ['AITaskRequestEnvelope', 'AITaskResultEnvelope']) {
    t.strictSame(
      schemas[name]?.oneOf?.flatMap(({ required }) => required),
      ['classify', 'generate', 'explain', 'grade'],
    );
  }
});

t.test('every operation has a summary, a description and a described tag', async (t) => {
  const described = new Map(document.tags.map(({ name, description }) => [name, description]));
  for (const { operationId, summary, description, tags = [] } of operations) {
    t.match(summary, /\w/, `summary of ${operationId}`);
    t.match(description, /^[A-Z].*\.\n\nAccess/s, `description of ${operationId}`);
    t.equal(tags.length, 1, `tag of ${operationId}`);
    t.match(described.get(tags[0] ?? ''), /\w/, `description of the tag of ${operationId}`);
  }
  t.equal(new Set(operations.map(({ operationId }) => operationId)).size, routes.length);
});

t.test('every parameter, reply and property has a description', async (t) => {
  for (const { operationId, parameters = [], responses } of operations) {
    for (const { name, description } of parameters) t.match(description, /\w/, `parameter ${name} of ${operationId}`);
    for (const [status, { description }] of Object.entries(responses)) {
      t.match(description, /\w/, `reply ${status} of ${operationId}`);
    }
  }
  t.strictSame([...undescribed(document.paths, 'paths'), ...undescribed(document.components, 'components')], []);
});

/** Yields the places of properties without a description, at any depth. */
function* undescribed(node: unknown, at: string): Generator<string> {
  if (typeof node !== 'object' || node === null) return;
  for (const [name, member] of Object.entries(node)) {
    // An example is data.
    if (name === 'example' || name === 'examples') continue;
    if (name === 'properties') {
      for (const [field, schema] of Object.entries(member as Record<string, Json>)) {
        if (typeof schema.description !== 'string') yield `${at} ${field}`;
        yield* undescribed(schema, `${at} ${field}`);
      }
    } else yield* undescribed(member, `${at} ${name}`);
  }
}

t.test('every request body and every success has a recorded example that fits its schema', async (t) => {
  const ajv = new Ajv2020({ strict: false, strictNumbers: true, allErrors: true });
  addFormats.default(ajv);
  ajv.addSchema(document, 'openapi.json');
  const missing: string[] = [];
  const check = (about: string, pointer: string, content: Record<string, Content>) => {
    for (const [media, { example }] of Object.entries(content)) {
      if (example === undefined) missing.push(about);
      const validate = ajv.compile({ $ref: `openapi.json#${pointer}/content/${escaped(media)}/schema` });
      t.ok(example === undefined || validate(example), `${about}: ${ajv.errorsText(validate.errors)}`);
    }
  };
  for (const { operationId, pointer, requestBody, responses } of operations) {
    if (requestBody !== undefined) check(`request of ${operationId}`, `${pointer}/requestBody`, requestBody.content);
    for (const [status, { content = {} }] of Object.entries(responses)) {
      if (status.startsWith('2')) check(`${status} of ${operationId}`, `${pointer}/responses/${status}`, content);
    }
  }
  t.strictSame(missing, [], 'run `RECORD_EXAMPLES=1 npx tap scripts/docs/pages.e2e.test.ts`');
  const known = new Set(operations.map(({ operationId }) => operationId));
  t.strictSame(
    Object.keys(examples).filter((id) => !known.has(id)),
    [],
    'an example of no operation',
  );
});

t.test('no example shows a token, or a mark of what a page leaves out', async (t) => {
  const text = JSON.stringify(examples);
  t.notMatch(text, /eyJ[\w-]{30}/);
  const { getOpenApi: _cutDocument, streamJob: _cutStream, ...others } = examples;
  t.notMatch(JSON.stringify(others), /… \d+ more/);
});

t.test('an operation is open to all only if none of its guards requires a proof', async (t) => {
  const open = routes.filter((route) => requirementsOf(route).length === 0).map(({ operation }) => operation);
  const process = ['getHealth', 'getIndex', 'getLanding', 'getOpenApi', 'getReadiness', 'getSecurityTxt'];
  t.strictSame(open.sort(), [...process, 'login', 'register', 'showUnsubscribe', 'unsubscribe']);
});
