import { type Schema, typesOf } from '#shared/classifier/schema.ts';
import { membersOf } from '#shared/kernel/json.ts';
import { withCommands } from './answer-text.ts';
import { jsonIn } from './written-json.ts';

/**
 * Returns the JSON value in a model's text as its task reads it, or undefined if the text has no such value:
 * - without a null for an optional field whose schema does not admit null, which wires without optional fields request;
 * - with a word of a fixed list as the list writes it, whatever case the model has chosen;
 * - with those commands of LaTeX that JSON has eaten for certain.
 */
export function readAnswer(text: string, schema: Schema): unknown {
  return asRead(jsonIn(text), schema);
}

function asRead(value: unknown, schema: Schema): unknown {
  if (typeof value === 'string') return inList(withCommands(value), schema.enum);
  if (Array.isArray(value)) return value.map((item) => asRead(item, membersOf(schema.items)));
  if (typeof value !== 'object' || value === null) return value;
  const properties = membersOf(schema.properties);
  const required = Array.isArray(schema.required) ? schema.required : [];
  const kept = Object.entries(value).filter(
    ([name, member]) =>
      member !== null || !(name in properties) || required.includes(name) || admitsNull(membersOf(properties[name])),
  );
  return Object.fromEntries(kept.map(([name, member]) => [name, asRead(member, membersOf(properties[name]))]));
}

function inList(text: string, list: unknown): string {
  if (!Array.isArray(list) || list.includes(text)) return text;
  const word = text.trim().toLowerCase();
  return list.find((listed) => typeof listed === 'string' && listed.toLowerCase() === word) ?? text;
}

function admitsNull(schema: Schema): boolean {
  if ('const' in schema) return schema.const === null;
  if (Array.isArray(schema.enum)) return schema.enum.includes(null);
  if (Array.isArray(schema.anyOf)) return schema.anyOf.some((branch) => admitsNull(membersOf(branch)));
  const types = typesOf(schema);
  return types.length === 0 || types.includes('null');
}
