import { type Schema, typesOf } from '#shared/classifier/lowering/schema.ts';
import { membersOf } from '#shared/kernel/json-object.ts';

/**
 * The JSON value in a model's text; undefined when there is none. A fence of Markdown around it is taken off, and a
 * null is taken out where the schema has an optional field that admits none: wires that know no optional fields ask for null.
 */
export function readAnswer(text: string, schema: Schema): unknown {
  const fenced = /^```[a-z]*\s*\n?([\s\S]*?)\n?\s*```$/i.exec(text.trim());
  try {
    return withoutNulls(JSON.parse(fenced?.[1] ?? text), schema);
  } catch {
    return undefined;
  }
}

function withoutNulls(value: unknown, schema: Schema): unknown {
  if (Array.isArray(value)) return value.map((item) => withoutNulls(item, membersOf(schema.items)));
  if (typeof value !== 'object' || value === null) return value;
  const properties = membersOf(schema.properties);
  const required = Array.isArray(schema.required) ? schema.required : [];
  const kept = Object.entries(value).filter(
    ([name, member]) =>
      member !== null || !(name in properties) || required.includes(name) || admitsNull(membersOf(properties[name])),
  );
  return Object.fromEntries(kept.map(([name, member]) => [name, withoutNulls(member, membersOf(properties[name]))]));
}

function admitsNull(schema: Schema): boolean {
  if ('const' in schema) return schema.const === null;
  if (Array.isArray(schema.enum)) return schema.enum.includes(null);
  if (Array.isArray(schema.anyOf)) return schema.anyOf.some((branch) => admitsNull(membersOf(branch)));
  const types = typesOf(schema);
  return types.length === 0 || types.includes('null');
}
