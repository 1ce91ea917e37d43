import type { Schemas } from '#infra/schema/validator.ts';
import { ERRORS, type ErrorCode } from '#shared/kernel/errors.ts';
import { Components } from './openapi-components.ts';
import type { HeaderDoc, ReplyDoc, Route } from './route.ts';

/**
 * Codes that the server returns before or around a handler. `unrouted` codes belong to no operation: unknown route, or known path
 * with another method. A path parameter that is not an id also returns `ROUTE_NOT_FOUND`. Every method but GET refuses the media
 * types of a form. Every route refuses brackets in a query name.
 */
export const SERVER_CODES = {
  unrouted: ['ROUTE_NOT_FOUND', 'METHOD_NOT_ALLOWED'],
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
}

type Json = Record<string, unknown>;

/** Returns the OpenAPI 3.1 document of the routes, built from the schemas that validate them and the codes they declare. */
export function openApi({ routes, schemas, version, title }: Input): object {
  const components = new Components(schemas, [FAILURE, ...routes.flatMap(repliedSchemas)]);
  components.reference(FAILURE);
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)/g, '{$1}');
    const item = paths[path] ?? {};
    item[route.method.toLowerCase()] = operationOf(route, schemas, components);
    paths[path] = item;
  }
  const secured = routes.some(bearerOf);
  const tags = [...new Set(routes.flatMap(({ tag }) => tag ?? []))];
  return {
    openapi: '3.1.0',
    info: { title, version, description: DESCRIPTION },
    servers: [{ url: '/' }],
    ...(tags.length > 0 && { tags: tags.map((name) => ({ name })) }),
    paths,
    components: {
      schemas: components.toJSON(),
      headers: HEADERS,
      ...(secured && { securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } } }),
    },
  };
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

/** Returns the schema ids of a route's replies, of successes and of failures. */
function repliedSchemas(route: Route): string[] {
  return [...route.replies.map(({ schema }) => schema), ...Object.values(route.failureData ?? {})];
}

const DESCRIPTION = `Success is \`{success: true, data, message}\`, failure \`{success: false, code, message, data?, details?, requestId}\`.
An optional field that is null counts as absent. Unknown query names are ignored. An unlisted path is answered with
404 \`ROUTE_NOT_FOUND\`, an unlisted method of a listed path with 405 \`METHOD_NOT_ALLOWED\` and \`Allow\`.`;

const HEADERS = {
  RequestId: {
    description: 'The `X-Request-Id` of the request, or a generated one.',
    schema: { type: 'string', pattern: '^[\\w.-]{1,128}$' },
  },
  RetryAfter: { description: 'Whole seconds to wait before a retry.', schema: { type: 'integer', minimum: 0 } },
};

/** Headers whose permitted roles the document lists, so that a generated client knows which roles do not get 403. */
const ROLE_HEADERS = new Set(['x-user-role', 'x-actor-role']);

function operationOf(route: Route, schemas: Schemas, components: Components): Json {
  const tags = route.tag === undefined ? {} : { tags: [route.tag] };
  const operation: Json = { operationId: route.operation, summary: route.summary, ...tags };
  const bearer = bearerOf(route);
  if (bearer) operation.security = bearer.required ? [{ bearer: [] }] : [{ bearer: [] }, {}];
  const parameters = parametersOf(route, schemas, components);
  if (parameters.length > 0) operation.parameters = parameters;
  if (route.body) {
    const schema = components.reference(route.body.schema, 'request');
    // A POST without a body counts as `{}`, so the body is required only if the schema has required fields.
    const required = (schemas.document(route.body.schema).required ?? []).length > 0;
    operation.requestBody = {
      description: `At most ${route.body.maxBytes} bytes.`,
      required,
      content: { 'application/json': { schema } },
    };
  }
  operation.responses = { ...successesOf(route.replies, schemas, components), ...failuresOf(route, components) };
  return operation;
}

function bearerOf(route: Route): HeaderDoc | undefined {
  return headersOf(route).find((header) => header.name.toLowerCase() === 'authorization');
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
  const parameters: Json[] = [...route.path.matchAll(/:(\w+)/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string', pattern: '^[A-Za-z0-9._:-]{1,128}$' },
  }));
  const roles = route.guards.find((guard) => guard.roles !== undefined)?.roles ?? [];
  for (const { name, required, description, example: usual } of headersOf(route)) {
    // OpenAPI ignores a parameter of this name; the security scheme describes it.
    if (name.toLowerCase() === 'authorization') continue;
    const hasRoles = ROLE_HEADERS.has(name.toLowerCase()) && roles.length > 0;
    const schema = { type: 'string', ...(hasRoles && { enum: roles }) };
    const example = hasRoles && !roles.includes(usual ?? '') ? roles[0] : usual;
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

function successesOf(replies: readonly ReplyDoc[], schemas: Schemas, components: Components): Json {
  const responses: Json = {};
  for (const [status, docs] of Map.groupBy(replies, (reply) => reply.status)) {
    const content: Json = {};
    for (const [media, same] of Map.groupBy(docs, (doc) => schemas.document(doc.schema)['x-bare'] ?? ENVELOPED)) {
      const alternatives = same.map((doc) => components.reference(doc.schema));
      const data = alternatives.length === 1 ? alternatives[0] : { anyOf: alternatives };
      content[media === ENVELOPED ? 'application/json' : media] = {
        schema: media === ENVELOPED ? envelope(data) : data,
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

function ownHeaders(docs: readonly ReplyDoc[]): Json {
  const named = docs.flatMap((doc) => Object.entries(doc.headers ?? {}));
  return Object.fromEntries(named.map(([name, description]) => [name, { description, schema: { type: 'string' } }]));
}

const ENVELOPED = '';

function envelope(data: unknown): Json {
  return {
    type: 'object',
    required: ['success', 'data', 'message'],
    properties: { success: { type: 'boolean', const: true }, data, message: { type: 'string' } },
  };
}

function failuresOf(route: Route, components: Components): Json {
  const responses: Json = {};
  const all = codesOf(route);
  for (const code of Object.keys(route.failureData ?? {}) as ErrorCode[]) {
    if (!all.includes(code)) throw new Error(`${route.operation} names data of ${code}, which it never answers`);
  }
  for (const [status, codes] of Map.groupBy(all, (code) => ERRORS[code].status)) {
    const waits = codes.some((code) => ERRORS[code].retry === 'after' || ERRORS[code].retry === 'after-if-sent');
    const payloads = codes.flatMap((code) => route.failureData?.[code] ?? []).map((id) => components.reference(id));
    const named = { code: { type: 'string', enum: codes }, ...(payloads.length > 0 && { data: { anyOf: payloads } }) };
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
