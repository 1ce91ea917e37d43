import { membersOf } from '#shared/kernel/json-object.ts';

/** A JSON Schema, or a part of one. */
export type Schema = Readonly<Record<string, unknown>>;

/** The types that a schema names; empty = any. */
export function typesOf(schema: Schema): readonly unknown[] {
  if (schema.type === undefined) return [];
  return Array.isArray(schema.type) ? schema.type : [schema.type];
}

/** `schema` with `change` applied to every schema right below it. */
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

/** Whether an object anywhere in it may have members that it does not name. */
export function hasFreeMap(schema: Schema): boolean {
  let found = typesOf(schema).includes('object') && Object.keys(membersOf(schema.properties)).length === 0;
  mapParts(schema, (part) => {
    found ||= hasFreeMap(part);
    return part;
  });
  return found;
}

/** Keywords that some wires refuse, said in words where a model still reads them. */
export function inWords(schema: Schema, keywords: readonly string[]): string | undefined {
  const said = keywords
    .filter((keyword) => keyword in schema)
    .map((keyword) => `${keyword}: ${JSON.stringify(schema[keyword])}`);
  if (said.length === 0) return undefined;
  const own = typeof schema.description === 'string' ? `${schema.description} ` : '';
  return `${own}(${said.join(', ')})`;
}

/** An object of exactly these fields, each of them required. */
export function closedObject(properties: Schema): Schema {
  return { type: 'object', additionalProperties: false, required: Object.keys(properties), properties };
}
