import { membersOf } from '#shared/kernel/json.ts';

/** A JSON Schema, or a part of one. */
export type Schema = Readonly<Record<string, unknown>>;

/** Returns the types that a schema names; an empty list = any type. */
export function typesOf(schema: Schema): readonly unknown[] {
  if (schema.type === undefined) return [];
  return Array.isArray(schema.type) ? schema.type : [schema.type];
}

/** Returns `schema` with `change` applied to each direct subschema. */
export function mapParts(schema: Schema, change: (part: Schema, name: string | null) => unknown): Schema {
  const mapped: Record<string, unknown> = { ...schema };
  for (const keyword of ['properties', '$defs']) {
    if (keyword in schema) {
      const parts = Object.entries(membersOf(schema[keyword]));
      mapped[keyword] = Object.fromEntries(
        parts.map(([name, part]) => [name, change(membersOf(part), keyword === 'properties' ? name : null)]),
      );
    }
  }
  if ('items' in schema) mapped.items = change(membersOf(schema.items), null);
  for (const keyword of ['anyOf', 'oneOf', 'allOf']) {
    const parts = schema[keyword];
    if (Array.isArray(parts)) mapped[keyword] = parts.map((part) => change(membersOf(part), null));
  }
  return mapped;
}

/** Returns true if an object anywhere in the schema declares no properties, so its members are free. */
export function hasFreeMap(schema: Schema): boolean {
  let found = typesOf(schema).includes('object') && Object.keys(membersOf(schema.properties)).length === 0;
  mapParts(schema, (part) => {
    found ||= hasFreeMap(part);
    return part;
  });
  return found;
}

/**
 * Returns the description with the unsupported keywords added in words, which a model still reads. Returns undefined if the schema
 * has no such keyword.
 */
export function inWords(schema: Schema, keywords: readonly string[]): string | undefined {
  const described = keywords
    .filter((keyword) => keyword in schema)
    .map((keyword) => `${keyword}: ${JSON.stringify(schema[keyword])}`);
  if (described.length === 0) return undefined;
  const own = typeof schema.description === 'string' ? `${schema.description} ` : '';
  return `${own}(${described.join(', ')})`;
}

/** Returns the schema of an object with exactly these fields, all required. */
export function closedObject(properties: Schema): Schema {
  return { type: 'object', additionalProperties: false, required: Object.keys(properties), properties };
}
