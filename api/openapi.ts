import type { Schemas } from '#infra/schema/validator.ts';
import { ERRORS, type ErrorCode } from '#shared/kernel/errors.ts';
import { Components } from './openapi-components.ts';
import type { Example, Examples } from './openapi-examples.ts';
import { accessText, requirementsOf, securityOf, securitySchemesOf } from './openapi-security.ts';
import type { HeaderDoc, ReplyDoc, Route, Tag } from './route.ts';

/**
 * Codes that the server returns before or around a handler. `unrouted` codes belong to no operation: unknown route, known path with
 * another method, or a host that is not served. A path parameter that is not an id also returns `ROUTE_NOT_FOUND`. Every method but GET refuses the media
 * types of a form. Every route refuses brackets in a query name.
 */
export const SERVER_CODES = {
  unrouted: ['MISDIRECTED_REQUEST', 'ROUTE_NOT_FOUND', 'METHOD_NOT_ALLOWED'],
  parameters: ['ROUTE_NOT_FOUND'],
  changes: ['UNSUPPORTED_MEDIA_TYPE'],
  body: ['INVALID_JSON', 'PAYLOAD_TOO_LARGE', 'UNSUPPORTED_ENCODING'],
  everywhere: ['VALIDATION_FAILED', 'REQUEST_TIMEOUT', 'UNAVAILABLE', 'INTERNAL'],
} as const satisfies Record<string, readonly ErrorCode[]>;

interface Input {
  routes: readonly Route[];
  schemas: Schemas;
  version: string;
  title: string;
  /** Recorded request and replies of each operation; default: none. */
  examples?: Examples;
}

type Json = Record<string, unknown>;

/** Returns the OpenAPI 3.1 document of the routes, built from the schemas that validate them and the codes they declare. */
export function openApi({ routes, schemas, version, title, examples = {} }: Input): object {
  const components = new Components(schemas, [FAILURE, ...routes.flatMap(repliedSchemas)]);
  components.reference(FAILURE);
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)/g, '{$1}');
    const item = paths[path] ?? {};
    item[route.method.toLowerCase()] = operationOf(route, schemas, components, exampleFor(route, examples));
    paths[path] = item;
  }
  for (const { request, result } of routes.flatMap(({ tag }) => tag?.envelopes ?? [])) {
    components.reference(request, 'request');
    components.reference(result);
  }
  const securitySchemes = securitySchemesOf(routes);
  return {
    openapi: '3.1.0',
    info: { title, version, summary: SUMMARY, description: DESCRIPTION, contact: CONTACT, license: LICENSE },
    servers: [{ url: '/', description: 'The process that serves this document' }],
    tags: tagsOf(routes),
    paths,
    components: {
      schemas: components.toJSON(),
      headers: HEADERS,
      ...(Object.keys(securitySchemes).length > 0 && { securitySchemes }),
    },
  };
}

/** Returns the tags of the routes, each once. @throws Error if two tags share a name */
function tagsOf(routes: readonly Route[]): Omit<Tag, 'envelopes'>[] {
  const tags = new Map<string, Omit<Tag, 'envelopes'>>();
  for (const { tag } of routes) {
    if (tag === undefined) continue;
    if ((tags.get(tag.name) ?? tag).description !== tag.description) throw new Error(`two tags are named ${tag.name}`);
    tags.set(tag.name, { name: tag.name, description: tag.description });
  }
  return [...tags.values()];
}

/** Returns every code that a route's operation can return, sorted. */
export function codesOf(route: Route): ErrorCode[] {
  const codes = new Set<ErrorCode>([
    ...SERVER_CODES.everywhere,
    ...(route.path.includes(':') ? SERVER_CODES.parameters : []),
    ...(route.method === 'GET' ? [] : SERVER_CODES.changes),
    ...(route.body ? SERVER_CODES.body : []),
    ...route.guards.flatMap((guard) => guard.codes),
    ...route.errors,
  ]);
  return [...codes].sort();
}

/** Returns the codes of the catalogue that neither the server nor a route returns. A test of the whole table checks them. */
export function unansweredCodes(routes: readonly Route[]): ErrorCode[] {
  const answered = new Set<string>([...SERVER_CODES.unrouted, ...routes.flatMap(codesOf)]);
  return (Object.keys(ERRORS) as ErrorCode[]).filter((code) => !answered.has(code));
}

const FAILURE = 'common/failure-envelope';

/** Returns the schema ids of a route's replies, of successes and of failures, and of the result behind them. */
function repliedSchemas({ replies, failureData, tag }: Route): string[] {
  const results = tag?.envelopes === undefined ? [] : [tag.envelopes.result];
  return [...replies.map(({ schema }) => schema), ...Object.values(failureData ?? {}), ...results];
}

const SUMMARY = 'Online examinations: attempts, accounts, notifications and the AI classifier';
const CONTACT = { name: 'The maintainers of examhall' };
const LICENSE = { name: 'Apache License 2.0', identifier: 'Apache-2.0' };

const DESCRIPTION = `Success is \`{success: true, data, message}\`, failure \`{success: false, code, message, data?, details?, requestId}\`.
An optional field that is null counts as absent. Unknown query names are ignored. An unlisted path is answered with
404 \`ROUTE_NOT_FOUND\`, an unlisted method of a listed path with 405 \`METHOD_NOT_ALLOWED\` and \`Allow\`. Outside production, a request to
another host than loopback is answered with 421 \`MISDIRECTED_REQUEST\`.

**Retries.** After a timeout, a reset or a 503 send the same request again, with the same key; each operation states what a repeat returns. Wait
for \`Retry-After\` on 429 and 503. Never repeat another 4xx unchanged. A 202 means that the request is stored and will run.

**Access.** \`security\` lists the alternatives of each operation. The list beside a scheme of a role or of a service holds the values of which one
is required. The gateway verifies the token of its user and sends the identity headers; a client never sends them itself.

**Values.** Timestamps are RFC 3339, in replies UTC with milliseconds. Ids that this product makes are UUIDv7. Every example is recorded from a
running cluster; its tokens are cut or are those of development.`;

const HEADERS = {
  RequestId: {
    description: 'The `X-Request-Id` of the request, or a generated one.',
    schema: { type: 'string', pattern: '^[\\w.-]{1,128}$' },
  },
  RetryAfter: { description: 'Whole seconds to wait before a retry.', schema: { type: 'integer', minimum: 0 } },
};

/** Returns the example of an operation, with replies that others lend it. */
function exampleFor({ operation, replies }: Route, examples: Examples): Example {
  const own = examples[operation];
  const lent = replies.flatMap(({ status, exampleOf = '' }) => {
    const reply = examples[exampleOf]?.replies[status];
    return reply === undefined ? [] : [[status, reply]];
  });
  return { ...own, replies: { ...Object.fromEntries(lent), ...own?.replies } };
}

function operationOf(route: Route, schemas: Schemas, components: Components, example: Example): Json {
  const requirements = requirementsOf(route);
  const operation: Json = {
    operationId: route.operation,
    summary: route.summary,
    ...(route.description !== undefined && { description: `${route.description}\n\n${accessText(requirements)}` }),
    ...(route.tag !== undefined && { tags: [route.tag.name] }),
    security: securityOf(requirements),
  };
  const parameters = parametersOf(route, schemas, components);
  if (parameters.length > 0) operation.parameters = parameters;
  if (route.body) {
    const schema = components.reference(route.body.schema, 'request');
    // A POST without a body counts as `{}`, so the body is required only if the schema has required fields.
    const required = (schemas.document(route.body.schema).required ?? []).length > 0;
    operation.requestBody = {
      description: `At most ${route.body.maxBytes} bytes.`,
      required,
      content: { 'application/json': { schema, ...(example.request !== undefined && { example: example.request }) } },
    };
  }
  const successes = successesOf(route.replies, schemas, components, example.replies);
  operation.responses = { ...successes, ...failuresOf(route, schemas, components) };
  return operation;
}

function headersOf(route: Route): HeaderDoc[] {
  const byName = new Map<string, HeaderDoc>();
  for (const header of [...route.guards.flatMap((guard) => guard.headers), ...(route.headers ?? [])]) {
    const known = byName.get(header.name.toLowerCase());
    if (!known || (header.required && !known.required)) byName.set(header.name.toLowerCase(), header);
  }
  return [...byName.values()];
}

function parametersOf(route: Route, schemas: Schemas, components: Components): Json[] {
  const parameters: Json[] = [...route.path.matchAll(/:(\w+)/g)].map(([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    ...(route.params?.[name] !== undefined && { description: route.params[name] }),
    schema: { type: 'string', pattern: '^[A-Za-z0-9._:-]{1,128}$' },
  }));
  for (const { name, required, description, example } of headersOf(route)) {
    const schema = { type: 'string' };
    parameters.push({ name, in: 'header', required, description, schema, ...(example !== undefined && { example }) });
  }
  if (route.query !== undefined) {
    const query = schemas.document(route.query);
    for (const [name, field] of Object.entries(query.properties ?? {})) {
      const { description, ...schema } = components.rewritten(field, query.$id);
      const required = query.required?.includes(name) ?? false;
      parameters.push({ name, in: 'query', required, ...(description !== undefined && { description }), schema });
    }
  }
  return parameters;
}

function successesOf(
  replies: readonly ReplyDoc[],
  schemas: Schemas,
  components: Components,
  examples: Example['replies'],
): Json {
  const responses: Json = {};
  for (const [status, docs] of Map.groupBy(replies, (reply) => reply.status)) {
    const content: Json = {};
    for (const [media, same] of Map.groupBy(docs, (doc) => schemas.document(doc.schema)['x-bare'] ?? ENVELOPED)) {
      const alternatives = same.map((doc) => components.reference(doc.schema));
      const data = oneOfThese(alternatives);
      content[media === ENVELOPED ? 'application/json' : media] = {
        schema: media === ENVELOPED ? envelope(data, schemas) : data,
        ...(examples[status] !== undefined && { example: examples[status] }),
      };
    }
    const description = docs.map((doc) => doc.description).join(' Or: ');
    responses[status] = {
      description,
      headers: { 'X-Request-Id': { $ref: '#/components/headers/RequestId' }, ...ownHeaders(docs) },
      // A 204 reply has no body.
      ...(status === 204 ? {} : { content }),
    };
  }
  return responses;
}

/** Returns a schema that one of these satisfies. */
function oneOfThese(schemas: readonly object[]): object {
  return schemas.length === 1 ? { ...schemas[0] } : { anyOf: schemas };
}

function ownHeaders(docs: readonly ReplyDoc[]): Json {
  const named = docs.flatMap((doc) => Object.entries(doc.headers ?? {}));
  return Object.fromEntries(named.map(([name, description]) => [name, { description, schema: { type: 'string' } }]));
}

const ENVELOPED = '';

function envelope(data: object, schemas: Schemas): Json {
  const { success, data: anyData, message } = schemas.document('common/envelope').properties ?? {};
  return {
    type: 'object',
    required: ['success', 'data', 'message'],
    properties: { success, data: { description: anyData?.description, ...data }, message },
  };
}

function failuresOf(route: Route, schemas: Schemas, components: Components): Json {
  const { code, data } = schemas.document(FAILURE).properties ?? {};
  const responses: Json = {};
  const all = codesOf(route);
  for (const code of Object.keys(route.failureData ?? {}) as ErrorCode[]) {
    if (!all.includes(code)) throw new Error(`${route.operation} names data of ${code}, which it never answers`);
  }
  for (const [status, codes] of Map.groupBy(all, (code) => ERRORS[code].status)) {
    const waits = codes.some((code) => ERRORS[code].retry === 'after' || ERRORS[code].retry === 'after-if-sent');
    const payloads = codes.flatMap((code) => route.failureData?.[code] ?? []).map((id) => components.reference(id));
    const named = {
      code: { description: code?.description, type: 'string', enum: codes },
      ...(payloads.length > 0 && { data: { description: data?.description, ...oneOfThese(payloads) } }),
    };
    responses[status] = {
      description: codes.map((code) => `- \`${code}\`: ${ERRORS[code].cause}`).join('\n'),
      headers: {
        'X-Request-Id': { $ref: '#/components/headers/RequestId' },
        ...(waits && { 'Retry-After': { $ref: '#/components/headers/RetryAfter' } }),
      },
      content: {
        'application/json': {
          schema: { allOf: [components.reference(FAILURE), { type: 'object', properties: named }] },
          examples: Object.fromEntries(codes.map((name) => [name, { value: failureExample(name) }])),
        },
      },
    };
  }
  return responses;
}

function failureExample(code: ErrorCode): Json {
  const details = code === 'VALIDATION_FAILED' && { details: [{ path: '/field', message: 'is required' }] };
  return { success: false, code, message: ERRORS[code].message, ...details, requestId: 'req-1' };
}
