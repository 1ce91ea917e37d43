import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import t from 'tap';
import type { AttemptDeps } from '#api/attempt/deps.ts';
import { attemptRoutes } from '#api/attempt/routes.ts';
import type { AuthDeps } from '#api/auth/deps.ts';
import { authRoutes } from '#api/auth/routes.ts';
import type { ClassifierDeps } from '#api/classifier/deps.ts';
import { classifierRoutes } from '#api/classifier/mount.ts';
import type { NotificationDeps } from '#api/notification/deps.ts';
import { notificationRoutes } from '#api/notification/mount.ts';
import { type SchemaNode, typesOf } from '#infra/schema/schema-document.ts';
import { loadSchemas } from '#infra/schema/validator.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import { openApi } from './openapi.ts';
import type { Route } from './route.ts';

type Json = Record<string, unknown>;

const schemas = loadSchemas();
// Building the route table reads only tokens and roles of its dependencies.
const routes: Route[] = [
  ...attemptRoutes({ settings: { receiverToken: 'token', handoffSenders: ['api-gateway'] } } as unknown as AttemptDeps),
  ...authRoutes({ settings: { selfRegisterRoles: new Set(['STUDENT']) } } as unknown as AuthDeps),
  ...classifierRoutes({ jobs: {}, previews: {}, providers: {} } as ClassifierDeps),
  ...notificationRoutes({ senderTokens: { 'bff-service': 'token' } } as unknown as NotificationDeps),
];

/** Returns a value of this schema with every field that it may have and one item in every list. */
function sampleOf(node: SchemaNode): unknown {
  if (node.const !== undefined) return node.const;
  if (node.enum) return node.enum.find((word) => word !== null);
  if (node.properties) {
    return Object.fromEntries(Object.entries(node.properties).map(([name, field]) => [name, sampleOf(field)]));
  }
  const least = node.minimum ?? 1;
  switch (typesOf(node).find((type) => type !== 'null')) {
    case 'object':
      return {};
    case 'array':
      return node.items ? [sampleOf(node.items)] : [];
    case 'boolean':
      return true;
    case 'integer':
    case 'number':
      return Math.max(least, 1);
    default:
      return node.format === 'date-time' ? '2026-01-01T00:00:00Z' : (node.examples?.[0] ?? 'text of the test');
  }
}

/** One property of a body. `at`: the path from the root; it enters a list at the first item. */
interface Property {
  at: string[];
  isRequired: boolean;
  /** True if null is one of the property's own values. */
  isNullable: boolean;
}

function propertiesOf(node: SchemaNode, at: readonly string[] = []): Property[] {
  const own = Object.entries(node.properties ?? {}).flatMap(([name, field]) => {
    const here = [...at, name];
    const isRequired = node.required?.includes(name) ?? false;
    const isNullable = field.type === undefined || typesOf(field).includes('null');
    return [{ at: here, isRequired, isNullable }, ...propertiesOf(field, here)];
  });
  return node.items ? [...own, ...propertiesOf(node.items, [...at, '0'])] : own;
}

/** Returns a copy of the body in which one property is null, or absent if `value` is undefined. */
function changed(body: unknown, at: readonly string[], value: null | undefined): Json {
  const copy = structuredClone(body) as Json;
  const last = at.at(-1) ?? '';
  let holder = copy;
  for (const step of at.slice(0, -1)) holder = holder[step] as Json;
  if (value === null) holder[last] = null;
  else delete holder[last];
  return copy;
}

const pointerOf = (at: readonly string[]) => at.map((step) => `/${step}`).join('');

/** Validates a body like the server. Returns its faults and the body as it would be stored. */
function judged({ body: rule }: Route, body: Json) {
  const faults = schemas.validator(rule?.schema ?? '')(body);
  const more = rule?.moreFaults?.(body, faults) ?? [];
  const further = 'next' in more ? atOnce(more) : more;
  return { faults, further, body };
}

const document = openApi({ routes, schemas, version: '1.0.0', title: 'examhall' });
const ajv = new Ajv2020({ strict: false, strictNumbers: true });
addFormats.default(ajv);
ajv.addSchema(document, 'openapi.json');

/** Returns the JSON pointer at which the document describes a property of a route's body. */
function describedAt({ method, path }: Route, at: readonly string[]): string {
  const item = path.replace(/:(\w+)/g, '{$1}').replaceAll('/', '~1');
  let pointer = `/paths/${item}/${method.toLowerCase()}/requestBody/content/application~1json/schema`;
  for (const step of at) {
    for (;;) {
      const { $ref, anyOf } = nodeAt(pointer);
      if ($ref !== undefined) pointer = $ref.slice(1);
      else if (anyOf !== undefined) pointer += '/anyOf/0';
      else break;
    }
    pointer += step === '0' ? '/items' : `/properties/${step}`;
  }
  return pointer;
}

function nodeAt(pointer: string): SchemaNode {
  const steps = pointer
    .slice(1)
    .split('/')
    .map((step) => step.replaceAll('~1', '/'));
  return steps.reduce<unknown>((node, step) => (node as Json)[step], document) as SchemaNode;
}

const withBody = routes.filter(({ body }) => body !== undefined);
const table = withBody.flatMap((route) => {
  const root = schemas.resolved(route.body?.schema ?? '');
  return propertiesOf(root).map((property) => ({ route, sample: sampleOf(root), ...property }));
});

t.test(
  'null in an optional property of a body counts as absent, both to the validator and in the document',
  async (t) => {
    const optional = table.filter(({ isRequired }) => !isRequired);
    t.ok(optional.length > 200, `${optional.length} optional properties`);
    for (const { route, sample, at, isNullable } of optional) {
      const name = `${route.operation} ${pointerOf(at)}`;
      const [withNull, without] = [changed(sample, at, null), changed(sample, at, undefined)].map((body) =>
        judged(route, body),
      );
      t.notOk(
        withNull?.faults.some(({ path }) => path.startsWith(pointerOf(at))),
        `${name} is accepted`,
      );
      t.strictSame(withNull?.further, without?.further, `${name} breaks no other rule than its absence`);
      if (!isNullable) t.strictSame(withNull, without, `${name} leaves the same body`);
      t.equal(ajv.validate({ $ref: `openapi.json#${describedAt(route, at)}` }, null), true, `${name} is declared`);
    }
  },
);

t.test(
  'null in a required property of a body is refused and not declared unless its schema permits null',
  async (t) => {
    const required = table.filter(({ isRequired }) => isRequired);
    t.ok(required.length > 50, `${required.length} required properties`);
    for (const { route, sample, at, isNullable } of required) {
      const name = `${route.operation} ${pointerOf(at)}`;
      const { faults } = judged(route, changed(sample, at, null));
      t.equal(
        faults.some(({ path }) => path === pointerOf(at)),
        !isNullable,
        name,
      );
      t.equal(
        ajv.validate({ $ref: `openapi.json#${describedAt(route, at)}` }, null),
        isNullable,
        `${name} is declared`,
      );
    }
  },
);

t.test('the optional properties include those of a start that gateways send as null', async (t) => {
  const places = table.filter(({ route }) => route.operation.startsWith('start')).map(({ at }) => pointerOf(at));
  for (const place of ['/exam/resultsReleasedAt', '/access/attemptLimit', '/access/assignmentDueAt', '/access/link']) {
    t.ok(places.includes(place), place);
  }
});

/** Returns the document of a route that uses these test schemas in its request and in its reply. */
function documentOf(dir: Record<string, SchemaNode>): Json {
  const files = Object.entries(dir).map(([name, node]) => [
    `${name}.json`,
    JSON.stringify({ $schema: 'https://json-schema.org/draft/2020-12/schema', $id: `test/${name}`, ...node }),
  ]);
  const own = loadSchemas(t.testdir({ test: Object.fromEntries(files) }));
  const all = { ...own, ids: [], document: documentIn(own), resolved: resolvedIn(own) };
  const replies = [{ status: 200, schema: 'test/thing', description: 'A thing' }];
  const body = { schema: 'test/thing', maxBytes: 1 };
  const route = { method: 'POST', path: '/v1/things', operation: 'make', summary: 'Makes', guards: [] } as const;
  const routes = [{ ...route, replies, body, errors: [], handle: async () => ({ status: 200, data: {} }) }];
  const { components } = openApi({ routes, schemas: all, version: '1', title: 't' }) as { components: Json };
  return components.schemas as Json;
}
const documentIn = (own: typeof schemas) => (id: string) =>
  id.startsWith('test/') ? own.document(id) : schemas.document(id);
const resolvedIn = (own: typeof schemas) => (id: string) =>
  id.startsWith('test/') ? own.resolved(id) : schemas.resolved(id);

t.test('each kind of schema admits null in a request and is unchanged in a reply', async (t) => {
  const plain: SchemaNode = {
    type: 'object',
    additionalProperties: false,
    required: ['id'],
    properties: {
      id: { type: 'string' },
      text: { type: 'string', maxLength: 9, description: 'Any' },
      either: { type: ['string', 'integer'] },
      word: { type: 'string', enum: ['A', 'B'] },
      fixed: { type: 'integer', const: 1 },
      no: { type: 'string', not: { pattern: 'x' } },
      named: { $ref: 'word', description: 'One of them' },
      nullable: { anyOf: [{ $ref: 'word' }, { type: 'null' }] },
      any: { description: 'Anything' },
      list: { type: 'array', items: { $ref: 'part' } },
    },
  };
  const components = documentOf({
    thing: plain,
    word: { description: 'Words', type: 'string', enum: ['A', 'B'] },
    part: { type: 'object', additionalProperties: false, properties: { n: { type: 'integer' } } },
  });
  t.strictSame(Object.keys(components), [
    'FailureEnvelope',
    'FaultDetail',
    'Part',
    'PartInput',
    'Thing',
    'ThingInput',
    'Word',
  ]);
  const word = { $ref: '#/components/schemas/Word' };
  t.strictSame((components.ThingInput as Json).properties, {
    id: { type: 'string' },
    text: { description: 'Any', type: ['string', 'null'], maxLength: 9 },
    either: { type: ['string', 'integer', 'null'] },
    word: { type: ['string', 'null'], enum: ['A', 'B', null] },
    fixed: { anyOf: [{ type: 'integer', const: 1 }, { type: 'null' }] },
    no: { anyOf: [{ type: 'string', not: { pattern: 'x' } }, { type: 'null' }] },
    named: { description: 'One of them', anyOf: [word, { type: 'null' }] },
    nullable: { anyOf: [word, { type: 'null' }] },
    any: { description: 'Anything' },
    list: { type: ['array', 'null'], items: { $ref: '#/components/schemas/PartInput' } },
  });
  t.strictSame((components.Thing as Json).properties, {
    ...plain.properties,
    named: { ...word, description: 'One of them' },
    nullable: { anyOf: [word, { type: 'null' }] },
    list: { type: 'array', items: { $ref: '#/components/schemas/Part' } },
  });
});
