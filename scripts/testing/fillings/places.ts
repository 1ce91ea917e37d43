import { type SchemaNode, typesOf } from '#infra/schema/schema-document.ts';

export type BodyOperation = ReturnType<typeof bodyOperations>[number];

/** One string, array or object of a body that its sender can fill. */
export interface Place {
  kind: 'text' | 'list' | 'record' | 'map';
  /** Steps from the root; `*` is an item of an array. */
  steps: readonly string[];
  /** The steps as text, such as `/questions/*\/content`; the root is `/`. */
  name: string;
  node: SchemaNode;
  /** The schemas of what it is in, from the root on. */
  above: readonly SchemaNode[];
}

interface OpenApiOperation {
  operationId: string;
  summary: string;
  security?: readonly Readonly<Record<string, readonly string[]>>[];
  requestBody?: { description: string; content: { 'application/json': { schema: SchemaNode; example?: unknown } } };
}

export interface OpenApiDocument {
  paths: Readonly<Record<string, Readonly<Record<string, OpenApiOperation>>>>;
  components: {
    schemas: Readonly<Record<string, SchemaNode>>;
    securitySchemes: Readonly<Record<string, { type: string; name?: string }>>;
  };
}

/** Returns every operation that takes a body, with each place of the body. Of the paths of one route, which share a summary, returns the first. */
export function bodyOperations(document: OpenApiDocument) {
  const described = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ path, method: method.toUpperCase(), ...operation })),
  );
  const seen = new Set<string>();
  return described.flatMap(({ path, method, operationId: id, summary, security = [], requestBody }) => {
    if (requestBody === undefined || seen.has(summary)) return [];
    seen.add(summary);
    const { schema, example } = requestBody.content['application/json'];
    const operation = {
      id,
      method,
      /** Path of the document, such as `/v1/attempts/{attemptId}/answers`. */
      path,
      maxBytes: maxBytesOf(id, requestBody.description),
      /** The first way to prove who calls: the names of its schemes, with the roles or the services of which one is required. */
      security: security[0] ?? {},
      /** True if no person sends such a body: every way to prove who calls names a service. */
      isOfServices: security.length > 0 && security.every((way) => 'internalService' in way),
      example,
      places: placesIn(whole(document, schema), [], []),
    };
    return [operation];
  });
}

/** Returns how long (ms) one body may hold the event loop. */
export function permittedMs({ isOfServices }: BodyOperation): number {
  return isOfServices ? 100 : 50;
}

/** Returns the size limit that the description of a body states. @throws Error if it states none */
function maxBytesOf(operationId: string, description: string): number {
  const bytes = /^At most (\d+) bytes/.exec(description)?.[1];
  if (bytes === undefined) throw new Error(`${operationId}: the document states no size of its body`);
  return Number(bytes);
}

function placesIn(node: SchemaNode, steps: readonly string[], above: readonly SchemaNode[]): Place[] {
  const kind = kindOf(node);
  const own: Place[] = kind === null ? [] : [{ kind, steps, name: `/${steps.join('/')}`, node, above }];
  const items = node.items === undefined ? [] : [['*', node.items] as const];
  const below = [...Object.entries(node.properties ?? {}), ...items].flatMap(([step, field]) =>
    placesIn(field, [...steps, step], [...above, node]),
  );
  return [...own, ...below];
}

/** Returns what a sender can fill here, or null for numbers, booleans and texts of a fixed form. */
export function kindOf(node: SchemaNode): Place['kind'] | null {
  const types = typesOf(node);
  if (types.includes('object'))
    return node.properties === undefined && node.additionalProperties !== false ? 'map' : 'record';
  if (types.includes('array')) return 'list';
  const isFixed = node.enum !== undefined || node.const !== undefined || node.format !== undefined;
  return types.includes('string') && !isFixed ? 'text' : null;
}

/** Returns a schema with every reference replaced by its target, and without the alternative null. */
function whole(document: OpenApiDocument, { $ref, anyOf, ...own }: SchemaNode): SchemaNode {
  const target = $ref === undefined ? {} : document.components.schemas[$ref.slice($ref.lastIndexOf('/') + 1)];
  if (target === undefined) throw new Error(`the document has no schema ${$ref}`);
  const branch = anyOf?.[0] === undefined ? {} : whole(document, anyOf[0]);
  const node = { ...($ref === undefined ? {} : whole(document, target)), ...branch, ...own };
  const properties = Object.entries(node.properties ?? {}).map(([name, field]) => [name, whole(document, field)]);
  return {
    ...node,
    ...(node.properties === undefined ? {} : { properties: Object.fromEntries(properties) }),
    ...(node.items === undefined ? {} : { items: whole(document, node.items) }),
  };
}
