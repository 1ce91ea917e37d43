import { nullMeansAbsent, referencedId, type SchemaNode, typeName, typesOf } from '#infra/schema/schema-document.ts';
import type { Schemas } from '#infra/schema/validator.ts';

/**
 * Direction in which a value is sent. In a request every optional field accepts null, which counts as absent. In a reply a field
 * is null only if its schema permits null.
 */
type Direction = 'request' | 'reply';

/**
 * The schema files that a document references, directly or through others, each as one component. If the request form and the
 * reply form of a file differ and both are used, the file becomes two components; the request form is named `…Input`.
 */
export class Components {
  readonly #schemas: Schemas;
  readonly #replied: ReadonlySet<string>;
  readonly #owners = new Map<string, string>();
  readonly #written = new Map<string, SchemaNode>();

  /** `replied`: schema ids of all replies. */
  constructor(schemas: Schemas, replied: readonly string[]) {
    this.#schemas = schemas;
    const below = new Set<string>();
    for (const id of replied) this.#addBelow(id, below);
    this.#replied = below;
  }

  reference(id: string, direction: Direction = 'reply'): { $ref: string } {
    const hasOwnForm = direction === 'request' && holdsAbsentNull(this.#schemas.resolved(id));
    const name = `${typeName(id)}${hasOwnForm && this.#replied.has(id) ? 'Input' : ''}`;
    const form = `${id}${hasOwnForm ? ' of requests' : ''}`;
    const owner = this.#owners.get(name);
    if (owner !== undefined && owner !== form) throw new Error(`schemas ${owner} and ${form} share the name ${name}`);
    if (owner === undefined) {
      this.#owners.set(name, form);
      const { $schema: _dialect, $id: _id, ...root } = this.#schemas.document(id);
      this.#written.set(name, this.rewritten(root, id, direction));
    }
    return { $ref: `#/components/schemas/${name}` };
  }

  /** Returns a node of the document `from`, with its references replaced by references to components. */
  rewritten(node: SchemaNode, from: string, direction: Direction = 'reply'): SchemaNode {
    const { 'x-bare': _bare, ...copy } = node;
    if (node.$ref !== undefined) copy.$ref = this.reference(referencedId(from, node.$ref), direction).$ref;
    if (node.items) copy.items = this.rewritten(node.items, from, direction);
    if (node.anyOf) copy.anyOf = node.anyOf.map((branch) => this.rewritten(branch, from, direction));
    if (node.properties) {
      const fields = Object.entries(node.properties).map(([name, field]) => {
        const written = this.rewritten(field, from, direction);
        const takesNull = direction === 'request' && nullMeansAbsent(node, name, this.#withTypes(field, from));
        return [name, takesNull ? orNull(written) : written] as const;
      });
      copy.properties = Object.fromEntries(fields);
    }
    return copy;
  }

  toJSON(): Record<string, SchemaNode> {
    return Object.fromEntries([...this.#written].sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  /** Returns the node that holds the field's types: the field, or the schema that it references. An `anyOf` admits null. */
  #withTypes(field: SchemaNode, from: string): SchemaNode {
    if (field.anyOf) return { type: 'null' };
    return field.$ref === undefined ? field : this.#schemas.resolved(referencedId(from, field.$ref));
  }

  #addBelow(id: string, below: Set<string>): void {
    if (below.has(id)) return;
    below.add(id);
    for (const ref of referencesOf(this.#schemas.document(id))) this.#addBelow(referencedId(id, ref), below);
  }
}

/** Returns every `$ref` of a node and of the nodes below it. */
function referencesOf(node: SchemaNode): string[] {
  const below = [...Object.values(node.properties ?? {}), ...(node.anyOf ?? []), ...(node.items ? [node.items] : [])];
  return [...(node.$ref === undefined ? [] : [node.$ref]), ...below.flatMap(referencesOf)];
}

/** Returns true if a field of the node, or of a node below, accepts a null that counts as absent. References must be resolved. */
function holdsAbsentNull(node: SchemaNode): boolean {
  const fields = Object.entries(node.properties ?? {});
  if (fields.some(([name, field]) => nullMeansAbsent(node, name, field) || holdsAbsentNull(field))) return true;
  return node.items !== undefined && holdsAbsentNull(node.items);
}

/** Returns the node extended to admit null. */
function orNull(node: SchemaNode): SchemaNode {
  const { description, ...own } = node;
  const text = description === undefined ? {} : { description };
  // A `$ref`, `const` or `not` would still refuse null if only `type` admitted it, so use `anyOf`.
  if (node.$ref !== undefined || node.const !== undefined || node.not) {
    return { ...text, anyOf: [own, { type: 'null' }] };
  }
  return { ...text, ...own, type: [...typesOf(node), 'null'], ...(node.enum && { enum: [...node.enum, null] }) };
}
