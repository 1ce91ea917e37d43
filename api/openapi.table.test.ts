import { spawnSync } from 'node:child_process';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import t from 'tap';
import { ACTOR, identity, optionalIdentity, organization, role, roleOrNone, scope } from '#api/http/guards/identity.ts';
import { adminOrSender, internalSender, knownSender, trustedStart } from '#api/http/guards/senders.ts';
import {
  accessToken,
  behindGateway,
  gatewayToken,
  operator,
  opsToken,
  tokenInHeader,
} from '#api/http/guards/tokens.ts';
import { loadSchemas } from '#infra/schema/validator.ts';
import { allRoutes } from '#scripts/generate/all-routes.ts';
import { echoRoute } from '#testing/doors/test-door.ts';
import { openApi, unansweredCodes } from './openapi.ts';
import { readExamples } from './openapi-examples.ts';
import { accessText, requirementsOf, securityOf, securitySchemesOf } from './openapi-security.ts';
import type { Guard } from './route.ts';

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
  t.strictSame(missing, [], 'run `RECORD_EXAMPLES=1 npx tap scripts/testing/docs/pages.e2e.test.ts`');
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

const SENDERS = {
  senders: ['exam-service', 'auth-service'],
  tokens: { 'exam-service': 'token', 'auth-service': 'token' },
  unauthorizedCode: 'NOTIFICATION_INTERNAL_UNAUTHORIZED',
  unconfiguredCode: 'NOTIFICATION_INTERNAL_TOKEN_NOT_CONFIGURED',
} as const;
const RECEIVER = internalSender({ ...SENDERS, token: 'token' });
const GATE = gatewayToken({ gatewayToken: 'gate' });

function routeOf(guards: Guard[], gate?: Guard) {
  const [route] = behindGateway([echoRoute({ guards })], gate);
  if (route === undefined) throw new Error('behindGateway returned no route');
  return route;
}

const security = (guards: Guard[], gate?: Guard) => securityOf(requirementsOf(routeOf(guards, gate)));

t.test('guards in a row need the proofs of all of them', async (t) => {
  t.strictSame(security([]), []);
  t.strictSame(security([identity(), role('STUDENT')]), [{ userId: [], userRole: ['STUDENT'] }]);
  t.strictSame(security([identity(ACTOR), scope(), role('ADMIN', 'TEACHER')]), [
    { actorId: [], actorRole: ['ADMIN', 'TEACHER'], organizationId: [] },
  ]);
  t.strictSame(security([trustedStart({ token: 'token' }), identity(), role('STUDENT')]), [
    {
      internalService: ['api-gateway'],
      receiverToken: [],
      runtimeDecisionSource: ['exam-service'],
      userId: [],
      userRole: ['STUDENT'],
    },
  ]);
  t.strictSame(security([accessToken(() => null)]), [{ accessToken: [] }]);
  t.strictSame(security([knownSender(SENDERS), organization()]), [
    { internalService: SENDERS.senders, senderToken: [] },
  ]);
});

t.test('a role that may be absent makes an alternative without it', async (t) => {
  const names = { ...ACTOR, roleMayBeAbsent: true };
  t.strictSame(security([identity(names), roleOrNone('PARENT')]), [
    { actorId: [], actorRole: ['PARENT'] },
    { actorId: [] },
  ]);
  t.strictSame(security([identity(names), role('ADMIN')]), [{ actorId: [], actorRole: ['ADMIN'] }]);
});

t.test('the gateway token is required beside an identity, and nowhere else', async (t) => {
  t.strictSame(security([identity(), role()], GATE), [
    { gatewayToken: [], userId: [], userRole: ['STUDENT', 'TEACHER', 'PARENT', 'ADMIN'] },
  ]);
  t.strictSame(security([RECEIVER, optionalIdentity('TEACHER')], GATE), [
    { internalService: SENDERS.senders, receiverToken: [] },
    { gatewayToken: [], internalService: SENDERS.senders, receiverToken: [], userId: [], userRole: ['TEACHER'] },
  ]);
  t.strictSame(security([adminOrSender(ACTOR, SENDERS)], GATE), [
    { internalService: SENDERS.senders, senderToken: [] },
    { gatewayToken: [], actorId: [], actorRole: ['ADMIN'] },
  ]);
  const person = { gatewayToken: [], userId: [], userRole: ['ADMIN'] };
  t.strictSame(security([operator({})], GATE), [{ operatorToken: [] }, person]);
  t.strictSame(security([operator({ opsReadToken: 'read' })], GATE), [
    { operatorToken: [] },
    { monitoringToken: [] },
    person,
  ]);
  t.strictSame(security([RECEIVER], GATE), [{ internalService: SENDERS.senders, receiverToken: [] }]);
});

t.test('a proof that may be left out makes an empty alternative', async (t) => {
  t.strictSame(security([tokenInHeader()]), [{ refreshToken: [] }, {}]);
  t.strictSame(security([opsToken({ production: false })]), [{ monitoringToken: [] }, { operatorToken: [] }, {}]);
  t.strictSame(security([opsToken({ production: true })]), [{ monitoringToken: [] }, { operatorToken: [] }]);
});

t.test('access is stated in words', async (t) => {
  const text = (guards: Guard[]) => accessText(requirementsOf(routeOf(guards)));
  t.equal(text([]), 'Access: any caller.');
  t.equal(text([identity(), role('TEACHER', 'ADMIN')]), 'Access: `X-User-Id`, `X-User-Role` of `TEACHER` or `ADMIN`.');
  t.equal(text([tokenInHeader()]), 'Access, one of:\n\n- `Authorization: Bearer` (refreshToken)\n- no header');
});

t.test('the document describes the schemes that its operations use, and no other', async (t) => {
  const schemes = securitySchemesOf([routeOf([identity(), role()], GATE), routeOf([accessToken(() => null)])]);
  t.match(schemes, {
    accessToken: { type: 'http', scheme: 'bearer', description: String },
    gatewayToken: { type: 'apiKey', in: 'header', name: 'X-Gateway-Token', description: String },
    userId: { type: 'apiKey', in: 'header', name: 'X-User-Id', description: String },
    userRole: { type: 'apiKey', in: 'header', name: 'X-User-Role', description: String },
  });
  t.equal(Object.keys(schemes).length, 4);
});
