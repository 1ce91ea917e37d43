import { membersOf } from '#shared/kernel/json-object.ts';
import { hasFreeMap, inWords, mapParts, type Schema, typesOf } from './schema.ts';

/** What strict structured output refuses or does not look at; said in words instead. */
const NOT_UNDERSTOOD = [
  'minLength',
  'maxLength',
  'uniqueItems',
  'contains',
  'prefixItems',
  'patternProperties',
  'minProperties',
  'maxProperties',
  'not',
  'if',
  'then',
  'else',
  'dependentRequired',
  'dependentSchemas',
  'allOf',
];

/**
 * A schema for OpenAI's structured output. Strict mode knows no optional fields: they become required and nullable, and
 * the nulls are taken out of the answer. A schema with a free map cannot be strict and goes as it is.
 */
export function toOpenAi(schema: Schema): { schema: Schema; strict: boolean } {
  const { $schema: _dialect, $id: _id, ...bare } = schema;
  return hasFreeMap(bare) ? { schema: bare, strict: false } : { schema: strictly(bare), strict: true };
}

function strictly(schema: Schema): Schema {
  const required = Array.isArray(schema.required) ? schema.required : [];
  const lowered: Record<string, unknown> = {
    ...mapParts(schema, (part, name) => {
      const strict = strictly(part);
      return name === null || required.includes(name) ? strict : nullable(strict);
    }),
  };
  const words = inWords(schema, NOT_UNDERSTOOD);
  if (words !== undefined) lowered.description = words;
  for (const keyword of NOT_UNDERSTOOD) delete lowered[keyword];
  if ('properties' in schema) {
    lowered.required = Object.keys(membersOf(schema.properties));
    lowered.additionalProperties = false;
  }
  return lowered;
}

function nullable(schema: Schema): Schema {
  const types = typesOf(schema);
  if (types.includes('null')) return schema;
  if (types.length === 0 || 'const' in schema) return { anyOf: [schema, { type: 'null' }] };
  const values = Array.isArray(schema.enum) ? { enum: [...schema.enum, null] } : {};
  return { ...schema, type: [...types, 'null'], ...values };
}
