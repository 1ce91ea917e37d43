/**
 * The part of JSON Schema 2020-12 that the files in `schemas/` may use. It is kept small on purpose: every keyword
 * here is understood by the validator, by the type generator and by the OpenAPI generator alike, and the loader
 * refuses any other. A nullable thing is `anyOf: [X, {type: "null"}]` or a `type` array.
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
  /** `false` refuses unknown fields; `true` makes a free map that is stored as it is. */
  additionalProperties?: boolean;
  /** `[X, {type: "null"}]` and nothing else. */
  anyOf?: readonly SchemaNode[];
  not?: SchemaNode;
  /** Instead of `additionalProperties`: unknown fields are taken out before anybody sees the body. */
  'x-unknown-fields'?: 'dropped';
  /** Limit of a free map, in bytes of its compact JSON text. */
  'x-max-json-bytes'?: number;
  /** What a caller reads when `not` or `pattern` of this node refuses. */
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
  'additionalProperties',
  'anyOf',
  'not',
  'x-unknown-fields',
  'x-max-json-bytes',
  'x-message',
  'x-bare',
]);

/** The `$id` that a `$ref` of the document `from` names. */
export function referencedId(from: string, ref: string): string {
  return new URL(ref, `schema:///${from}`).pathname.slice(1);
}

/** @throws Error naming the place, when a document leaves the subset: a silently ignored keyword is a hole. */
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
    throw new Error(`${at}: an object must say what becomes of unknown fields`);
  }
  for (const [name, field] of Object.entries(node.properties ?? {})) assertNode(field, `${at}/properties/${name}`);
  if (node.items) assertNode(node.items, `${at}/items`);
  if (node.not) assertNode(node.not, `${at}/not`);
  const [only, none] = node.anyOf ?? [];
  if (!only) return;
  if (node.anyOf?.length !== 2 || none?.type !== 'null') throw new Error(`${at}: anyOf is for [X, null] only`);
  assertNode(only, `${at}/anyOf/0`);
}

/** `attempt/save-answer-request` → `SaveAnswerRequest`: the name of the generated type and of the OpenAPI component. */
export function typeName(id: string): string {
  const last = id.slice(id.lastIndexOf('/') + 1);
  return last.replace(/(?:^|-)([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}
