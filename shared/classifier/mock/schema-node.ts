import type { Schema } from '#shared/classifier/lowering/schema.ts';
import { membersOf } from '#shared/kernel/json-object.ts';

/** The schema that a local `$ref` (`#/$defs/x`) leads to. */
export function followed(root: Schema, schema: Schema): Schema {
  const { $ref } = schema;
  if (typeof $ref !== 'string' || !$ref.startsWith('#/')) return schema;
  return $ref
    .slice(2)
    .split('/')
    .reduce<Schema>((node, step) => membersOf(node[step]), root);
}

/** The first type that is not null, where none is named the one that its keywords speak of. */
export function typeOf(node: Schema): unknown {
  const { type } = node;
  if (Array.isArray(type)) return type.find((name) => name !== 'null') ?? 'null';
  return type ?? ('properties' in node ? 'object' : 'items' in node ? 'array' : 'null');
}

/** The first schema of a list of choices (`anyOf`, `oneOf`). */
export function firstOf(choices: unknown): Schema | undefined {
  return Array.isArray(choices) && choices.length > 0 ? membersOf(choices[0]) : undefined;
}

/** The value of a keyword or field where it is a number. */
export function numberOr(value: unknown, otherwise: number): number {
  return typeof value === 'number' ? value : otherwise;
}
