import { membersOf } from '#shared/kernel/json.ts';
import { hasFreeMap, inWords, mapParts, type Schema, typesOf } from './schema.ts';

/** Functions that lower the schema of a task's answer to the part of JSON Schema that each provider supports. */

/** Returns a schema as the input of an Anthropic tool, which accepts any JSON Schema; only `$schema` and `$id` are removed. */
export function toAnthropic(schema: Schema): Schema {
  const { $schema: _dialect, $id: _id, ...bare } = schema;
  return bare;
}

const READ_BY_GEMINI = new Set([
  'type',
  'format',
  'title',
  'description',
  'nullable',
  'enum',
  'items',
  'minItems',
  'maxItems',
  'properties',
  'required',
  'minLength',
  'maxLength',
  'pattern',
  'minimum',
  'maximum',
  'anyOf',
  'propertyOrdering',
]);
const FORMATS_OF_GEMINI = ['enum', 'date-time', 'float', 'double', 'int32', 'int64'];
/** Keywords that Gemini does not receive, not even in words. */
const DROPPED_FOR_GEMINI = ['$schema', '$id', '$defs', 'const', 'oneOf', 'additionalProperties', 'format'];

/**
 * Returns a schema in the part of OpenAPI 3.0 that Gemini supports. A null type becomes a flag, a constant becomes an enum of one,
 * and unsupported keywords become words in the description. Returns null if the schema cannot be expressed (a reference, a free
 * map). It must then be sent in the prompt.
 */
export function toGemini(schema: Schema): Schema | null {
  if (JSON.stringify(schema).includes('"$ref"') || hasFreeMap(schema)) return null;
  return openApi(schema);
}

function openApi(schema: Schema): Schema {
  const types = typesOf(schema).filter((type) => type !== 'null');
  const isNullable = types.length < typesOf(schema).length;
  const mapped: Record<string, unknown> = { ...mapParts(schema, openApi) };
  if (types.length === 1) mapped.type = types[0];
  if (types.length === 0) delete mapped.type;
  if (types.length > 1) {
    delete mapped.type;
    mapped.anyOf = types.map((type) => ({ type }));
  }
  if (isNullable) mapped.nullable = true;
  if ('const' in schema) mapped.enum = [schema.const];
  if (Array.isArray(schema.oneOf)) mapped.anyOf = mapped.oneOf;
  foldNull(mapped);
  const words = inWords(schema, wordedKeywords(schema, mapped));
  if (words !== undefined) mapped.description = words;
  // Gemini's enums contain texts only.
  if (Array.isArray(mapped.enum)) {
    const choices = mapped.enum.filter((choice) => choice !== null);
    if (choices.every((choice) => typeof choice === 'string')) Object.assign(mapped, { enum: choices, type: 'string' });
    else delete mapped.enum;
  }
  if (typeof mapped.format === 'string' && !FORMATS_OF_GEMINI.includes(mapped.format)) delete mapped.format;
  if ('properties' in mapped) mapped.propertyOrdering = Object.keys(membersOf(mapped.properties));
  return Object.fromEntries(Object.entries(mapped).filter(([keyword]) => READ_BY_GEMINI.has(keyword)));
}

function wordedKeywords(schema: Schema, mapped: Schema): string[] {
  const unknown = Object.keys(schema).filter(
    (keyword) => !READ_BY_GEMINI.has(keyword) && !DROPPED_FOR_GEMINI.includes(keyword),
  );
  const choices = Array.isArray(mapped.enum) ? mapped.enum : [];
  const isLost = choices.some((choice) => typeof choice !== 'string' && choice !== null);
  return isLost ? [...unknown, 'enum' in schema ? 'enum' : 'const'] : unknown;
}

/** Replaces `anyOf: [X, null]` by X with the nullable flag. */
function foldNull(mapped: Record<string, unknown>): void {
  if (!Array.isArray(mapped.anyOf)) return;
  const branches = mapped.anyOf
    .map(membersOf)
    .filter((branch) => Object.keys(branch).some((key) => key !== 'nullable'));
  if (branches.length === mapped.anyOf.length) return;
  mapped.nullable = true;
  delete mapped.anyOf;
  if (branches.length === 1) Object.assign(mapped, branches[0], { nullable: true });
  else mapped.anyOf = branches;
}

/** Keywords that strict structured output refuses or ignores; they are sent as words in the description instead. */
const REFUSED_BY_OPENAI = [
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
 * Returns a schema for OpenAI's structured output. Strict mode has no optional fields: they become required and nullable, and
 * `readAnswer` removes the nulls. A schema with a free map cannot be strict and is sent unchanged.
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
  const words = inWords(schema, REFUSED_BY_OPENAI);
  if (words !== undefined) lowered.description = words;
  for (const keyword of REFUSED_BY_OPENAI) delete lowered[keyword];
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
