import { referencedId, type SchemaDocument, type SchemaNode } from './schema-document.ts';

/**
 * A document with every `$ref` replaced by what it names and every `anyOf: [X, null]` folded into X, so that the
 * validator meets one plain tree. Recursive schemas are not supported: none of our bodies is recursive.
 * @throws Error when a reference names no document or leads back to itself
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

/** The types a node admits; empty = any. */
export function typesOf(node: SchemaNode): readonly string[] {
  if (node.type === undefined) return [];
  return typeof node.type === 'string' ? [node.type] : node.type;
}

export function admitsNull(node: SchemaNode): boolean {
  const types = typesOf(node);
  return types.length === 0 || types.includes('null');
}
