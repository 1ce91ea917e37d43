import type { JsonSchema } from '#scripts/generate/schema-types.ts';

/** The part of an OpenAPI 3.1 document that the generator of the client reads. */
export interface OpenApiDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, OperationNode>>>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, JsonSchema>>;
    readonly securitySchemes?: Readonly<Record<string, SecurityScheme>>;
    readonly parameters?: Readonly<Record<string, ParameterNode>>;
  };
}

interface SecurityScheme {
  readonly type: string;
  readonly in?: string;
  readonly name?: string;
  readonly scheme?: string;
}

interface ParameterNode {
  readonly $ref?: string;
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  readonly description?: string;
  readonly schema: JsonSchema;
}

interface OperationNode {
  readonly operationId: string;
  readonly summary: string;
  readonly parameters?: readonly ParameterNode[];
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[];
  readonly requestBody?: {
    readonly required?: boolean;
    readonly content: Readonly<Record<string, { readonly schema: JsonSchema }>>;
  };
  readonly responses: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { readonly schema: JsonSchema }>> }>
  >;
}

/** Credential of a caller: an identity of the gateway, the token of a service, a bearer token, or the token of a device. */
export type Credential = 'as' | 'service' | 'token' | 'device';

/** One operation, as the client calls it. */
export interface ClientOperation {
  readonly name: string;
  readonly summary: string;
  readonly method: string;
  readonly path: string;
  readonly parameters: readonly ParameterNode[];
  readonly body: { readonly schema: JsonSchema; readonly required: boolean } | null;
  /** Schemas of `data` by the status of the reply. Empty for a stream. */
  readonly replies: ReadonlyMap<number, readonly JsonSchema[]>;
  readonly codes: readonly string[];
  /** Prefix of the headers that carry the caller. */
  readonly caller: 'user' | 'actor' | null;
  /** Credentials that the operation reads. */
  readonly reads: readonly Credential[];
  /** Credentials that every call needs. */
  readonly needs: readonly Credential[];
  /** Credentials of which a call needs one. Empty if `needs` suffices. */
  readonly oneOf: readonly Credential[];
  readonly readsOrganization: boolean;
  readonly needsOrganization: boolean;
  readonly readsKey: boolean;
  /** True if the client prefers the minimal reply, which the document lists last. */
  readonly isMinimal: boolean;
  readonly isStream: boolean;
}

const CREDENTIAL_OF: Readonly<Record<string, Credential>> = {
  'x-user-id': 'as',
  'x-actor-id': 'as',
  'x-internal-service': 'service',
  'x-internal-token': 'service',
  authorization: 'token',
  'x-device-token': 'device',
};
const ORGANIZATION = 'x-organization-id';
/** Headers that the client sends by itself. Any other header is a member of the operation's input. */
const OWN_HEADERS = new Set([
  ...Object.keys(CREDENTIAL_OF),
  ORGANIZATION,
  'x-user-role',
  'x-actor-role',
  'x-gateway-token',
  'idempotency-key',
  'x-idempotency-key',
  'x-correlation-id',
  'x-request-id',
  'last-event-id',
  'prefer',
  'traceparent',
  'tracestate',
]);

/** Returns the operations of a document in its order. @throws Error if a reply has neither an envelope nor events */
export function operationsOf(document: OpenApiDocument): ClientOperation[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, node]) => operationOf(document, path, method, node)),
  );
}

function operationOf(document: OpenApiDocument, path: string, method: string, node: OperationNode): ClientOperation {
  const parameters = (node.parameters ?? []).map((parameter) => resolved(document, parameter));
  const headers = headersOf(document, node, parameters);
  const required = headers.filter(({ isRequired }) => isRequired).map(({ name }) => name);
  const names = headers.map(({ name }) => name);
  const isStream = Object.values(node.responses).some(({ content = {} }) =>
    Object.keys(content).some((media) => media.startsWith('text/event-stream')),
  );
  const body = node.requestBody?.content['application/json']?.schema;
  const own = [...parameters, ...securityParametersOf(document, node, headers)];
  return {
    name: node.operationId,
    summary: node.summary,
    method: method.toUpperCase(),
    path,
    parameters: own.filter(({ in: place, name }) => place !== 'header' || !OWN_HEADERS.has(name.toLowerCase())),
    body: body === undefined ? null : { schema: body, required: node.requestBody?.required === true },
    replies: isStream ? new Map() : repliesOf(node, names.includes('prefer')),
    codes: codesOf(node),
    caller: callerOf(names),
    reads: credentialsOf(names),
    ...needsOf(document, node, { names, required }),
    readsOrganization: names.includes(ORGANIZATION),
    needsOrganization: required.includes(ORGANIZATION),
    readsKey: names.includes('idempotency-key'),
    isMinimal: names.includes('prefer'),
    isStream,
  };
}

function resolved({ components }: OpenApiDocument, parameter: ParameterNode): ParameterNode {
  if (parameter.$ref === undefined) return parameter;
  const found = components.parameters?.[parameter.$ref.replace('#/components/parameters/', '')];
  if (found === undefined) throw new Error(`${parameter.$ref} does not exist`);
  return found;
}

/** Returns the headers of an operation, from its parameters and its security schemes, in lower case. */
function headersOf(document: OpenApiDocument, node: OperationNode, parameters: readonly ParameterNode[]) {
  const alternatives = alternativesOf(document, node);
  const secured = [...new Set(alternatives.flat())].map((name) => ({
    name,
    isRequired: alternatives.every((headers) => headers.includes(name)),
  }));
  const listed = parameters
    .filter((parameter) => parameter.in === 'header')
    .map(({ name, required = false }) => ({ name: name.toLowerCase(), isRequired: required }));
  return [...secured, ...listed];
}

/** Returns the headers of an operation's `security` as parameters, with the values that the document lists for them. */
function securityParametersOf(
  { components }: OpenApiDocument,
  { security = [] }: OperationNode,
  headers: readonly { readonly name: string; readonly isRequired: boolean }[],
): ParameterNode[] {
  const values = new Map<string, Set<string>>();
  for (const [scheme, listed] of security.flatMap((schemes) => Object.entries(schemes))) {
    const name = components.securitySchemes?.[scheme]?.name?.toLowerCase();
    if (name !== undefined) values.set(name, new Set([...(values.get(name) ?? []), ...listed]));
  }
  return [...values].map(([name, listed]) => ({
    name,
    in: 'header',
    required: headers.some((header) => header.name === name && header.isRequired),
    schema: { type: 'string', ...(listed.size > 0 && { enum: [...listed] }) },
  }));
}

/** Returns the header names of each alternative of an operation's `security`. */
function alternativesOf({ components }: OpenApiDocument, { security = [] }: OperationNode): string[][] {
  return security.map((schemes) =>
    Object.keys(schemes).flatMap((scheme) => {
      const { type, in: place, name = '' } = components.securitySchemes?.[scheme] ?? { type: '' };
      if (type === 'http') return ['authorization'];
      return type === 'apiKey' && place === 'header' ? [name.toLowerCase()] : [];
    }),
  );
}

function credentialsOf(headers: readonly string[]): Credential[] {
  return [...new Set(headers.flatMap((name) => CREDENTIAL_OF[name] ?? []))].sort();
}

function callerOf(headers: readonly string[]): 'user' | 'actor' | null {
  if (headers.includes('x-user-id')) return 'user';
  return headers.includes('x-actor-id') ? 'actor' : null;
}

/**
 * Returns the credentials that every call needs, and those of which it needs one. Headers that are listed as parameters cannot state
 * alternatives: there, two optional credentials beside no required one are alternatives.
 */
function needsOf(
  document: OpenApiDocument,
  node: OperationNode,
  { names, required }: { names: readonly string[]; required: readonly string[] },
): Pick<ClientOperation, 'needs' | 'oneOf'> {
  const needs = credentialsOf(required);
  const others = credentialsOf(names).filter((credential) => !needs.includes(credential));
  const alternatives = alternativesOf(document, node).map(credentialsOf);
  const isListed = others.some((credential) => !alternatives.flat().includes(credential));
  if (alternatives.length === 0 || isListed)
    return { needs, oneOf: needs.length === 0 && others.length > 1 ? others : [] };
  const isEnough = alternatives.some((credentials) => credentials.every((credential) => needs.includes(credential)));
  return { needs, oneOf: isEnough ? [] : others };
}

function repliesOf({ operationId, responses }: OperationNode, isMinimal: boolean): Map<number, JsonSchema[]> {
  const replies = new Map<number, JsonSchema[]>();
  for (const [status, { content }] of Object.entries(responses)) {
    if (!status.startsWith('2')) continue;
    const { properties } = (content?.['application/json']?.schema ?? {}) as { properties?: { data?: JsonSchema } };
    const data = properties?.data;
    if (data === undefined) throw new Error(`${operationId}: the reply ${status} has no envelope`);
    const alternatives: JsonSchema[] = Array.isArray(data.anyOf) ? data.anyOf : [data];
    replies.set(Number(status), isMinimal ? alternatives.slice(-1) : alternatives);
  }
  return replies;
}

/** Returns the codes of the failures, sorted: every `enum` of a property `code` of a reply that is no success. */
function codesOf({ responses }: OperationNode): string[] {
  const codes = new Set<string>();
  const visit = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    const { code } = (value as { properties?: { code?: { enum?: readonly string[] } } }).properties ?? {};
    for (const name of code?.enum ?? []) codes.add(name);
    for (const member of Object.values(value)) visit(member);
  };
  for (const [status, { content }] of Object.entries(responses)) {
    if (!status.startsWith('2')) visit(content?.['application/json']?.schema);
  }
  return [...codes].sort();
}
