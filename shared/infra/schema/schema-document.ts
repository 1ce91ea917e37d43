/**
 * The part of JSON Schema 2020-12 that the files in `schemas/` may use. It is small on purpose: the validator, the type generator and
 * the OpenAPI generator all understand each keyword, and the loader refuses any other. A nullable value is
 * `anyOf: [X, {type: "null"}]` or a `type` array.
 */
export interface SchemaNode {
  $ref?: string;
  description?: string;
  type?: string | readonly string[];
  const?: unknown;
  enum?: readonly unknown[];
  examples?: readonly unknown[];
  format?: string;
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  minItems?: number;
  maxItems?: number;
  items?: SchemaNode;
  required?: readonly string[];
  properties?: Readonly<Record<string, SchemaNode>>;
  maxProperties?: number;
  /** `false` refuses unknown fields; `true` allows a free map, which is stored as it is. */
  additionalProperties?: boolean;
  /** `[X, {type: "null"}]` and nothing else. */
  anyOf?: readonly SchemaNode[];
  /** Rules between members that `properties` describes, such as which one goes with which kind. They describe no member anew. */
  oneOf?: readonly Pick<SchemaNode, 'required' | 'properties'>[];
  not?: SchemaNode;
  /** Replaces `additionalProperties`. Unknown fields are deleted before a handler receives the body. */
  'x-unknown-fields'?: 'dropped';
  /** Limit of a free map, in bytes of its compact JSON text. */
  'x-max-json-bytes'?: number;
  /** Limit of a free map, in levels of objects and arrays. The map itself is the first level. */
  'x-max-depth'?: number;
  /** Message of the fault when `not` or `pattern` of this node refuses a value. */
  'x-message'?: string;
  /** Media type of a reply that is sent without the success envelope. */
  'x-bare'?: string;
}

/** One file of `schemas/`. Its `$id` is its path without `.json`; a `$ref` is relative to the folder of its file. */
export interface SchemaDocument extends SchemaNode {
  $schema: string;
  $id: string;
}

const KEYWORDS: ReadonlySet<string> = new Set([
  '$ref',
  'description',
  'type',
  'const',
  'enum',
  'examples',
  'format',
  'pattern',
  'minLength',
  'maxLength',
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'minItems',
  'maxItems',
  'items',
  'required',
  'properties',
  'maxProperties',
  'additionalProperties',
  'anyOf',
  'oneOf',
  'not',
  'x-unknown-fields',
  'x-max-json-bytes',
  'x-max-depth',
  'x-message',
  'x-bare',
]);

/**
 * Checks that a document uses the subset only. A keyword that is silently ignored would leave a gap in the validation.
 *
 * @throws Error that names the place
 */
export function assertSubset(document: SchemaDocument): void {
  const { $schema, $id, ...root } = document;
  if ($schema !== 'https://json-schema.org/draft/2020-12/schema') throw new Error(`${$id}: $schema is not 2020-12`);
  assertNode(root, `${$id}#`);
}

function assertNode(node: SchemaNode, at: string): void {
  for (const keyword of Object.keys(node)) {
    if (!KEYWORDS.has(keyword)) throw new Error(`${at}: keyword ${keyword} is outside the subset`);
  }
  if (node.properties && node.additionalProperties === undefined && node['x-unknown-fields'] === undefined) {
    throw new Error(`${at}: an object must declare how it treats unknown fields`);
  }
  for (const [name, field] of Object.entries(node.properties ?? {})) assertNode(field, `${at}/properties/${name}`);
  if (node.items) assertNode(node.items, `${at}/items`);
  for (const rule of node.oneOf ?? []) {
    const names = [...Object.keys(rule.properties ?? {}), ...(rule.required ?? [])];
    if (names.some((name) => node.properties?.[name] === undefined))
      throw new Error(`${at}: oneOf names a foreign member`);
  }
  if (node.not) assertNode(node.not, `${at}/not`);
  const [only, none] = node.anyOf ?? [];
  if (!only) return;
  if (node.anyOf?.length !== 2 || none?.type !== 'null') throw new Error(`${at}: anyOf is for [X, null] only`);
  assertNode(only, `${at}/anyOf/0`);
}

/**
 * Returns a document as one plain tree: every `$ref` is replaced by its target, and every `anyOf: [X, null]` is folded into X.
 * Recursive schemas are not supported, because none of our bodies is recursive.
 *
 * @throws Error if a reference names no document or leads back to itself
 */
export function resolve(documents: ReadonlyMap<string, SchemaDocument>, id: string): SchemaNode {
  return expand(documents, id, []);
}

function expand(documents: ReadonlyMap<string, SchemaDocument>, id: string, trail: readonly string[]): SchemaNode {
  const document = documents.get(id);
  if (!document) throw new Error(`schema ${id} does not exist${trail.length ? ` (named by ${trail.at(-1)})` : ''}`);
  if (trail.includes(id)) throw new Error(`schema ${id} leads back to itself: ${[...trail, id].join(' > ')}`);
  const { $schema: _dialect, $id: _id, ...root } = document;

  const visit = (node: SchemaNode): SchemaNode => {
    const { $ref, ...own } = node;
    const target = $ref === undefined ? {} : expand(documents, referencedId(id, $ref), [...trail, id]);
    const merged: SchemaNode = { ...target, ...own };
    if (own.properties) {
      merged.properties = Object.fromEntries(Object.entries(own.properties).map(([key, field]) => [key, visit(field)]));
    }
    if (own.items) merged.items = visit(own.items);
    const nullable = own.anyOf?.[0];
    return nullable ? foldNull(merged, visit(nullable)) : merged;
  };
  return visit(root);
}

function foldNull({ anyOf: _anyOf, ...own }: SchemaNode, nullable: SchemaNode): SchemaNode {
  const merged: SchemaNode = { ...nullable, ...own, type: [...typesOf(nullable), 'null'] };
  if (nullable.enum) merged.enum = [...nullable.enum, null];
  return merged;
}

/** Returns the `$id` to which a `$ref` in the document `from` refers. */
export function referencedId(from: string, ref: string): string {
  return new URL(ref, `schema:///${from}`).pathname.slice(1);
}

/** Returns the name of the generated type and of the OpenAPI component: `attempt/save-answer-request` → `SaveAnswerRequest`. */
export function typeName(id: string): string {
  const last = id.slice(id.lastIndexOf('/') + 1);
  return last.replace(/(?:^|-)(ai(?=-|$)|[a-z0-9])/g, (_, begin: string) => begin.toUpperCase());
}

/** Returns the types that a node admits; an empty list means any type. */
export function typesOf(node: SchemaNode): readonly string[] {
  if (node.type === undefined) return [];
  return typeof node.type === 'string' ? [node.type] : node.type;
}

function admitsNull(node: SchemaNode): boolean {
  const types = typesOf(node);
  return types.length === 0 || types.includes('null');
}

/**
 * Returns true if null in this field of an object counts as absent: the field is optional and its own schema does not admit null.
 * The validator deletes such a null, and the OpenAPI document declares it. The references of `field` must be resolved already.
 */
export function nullMeansAbsent(object: SchemaNode, name: string, field: SchemaNode): boolean {
  return object.required?.includes(name) !== true && !admitsNull(field);
}
