import { execFile } from 'node:child_process';
import path from 'node:path';
import { compile } from 'json-schema-to-typescript';

/** A JSON Schema of `schemas/` or of the OpenAPI document. */
export type JsonSchema = Readonly<Record<string, unknown>>;

type NameOfReference = ($ref: string) => string;

const ROOT = path.resolve(import.meta.dirname, '../..');

/** Returns one exported type, not yet in the layout of the project. References become the names of other types. */
export function typeSource(name: string, schema: JsonSchema, nameOf: NameOfReference): Promise<string> {
  return compile(plain(schema, nameOf), name, {
    bannerComment: '',
    additionalProperties: false,
    declareExternallyReferenced: false,
    ignoreMinAndMaxItems: true,
    format: false,
  });
}

/** Returns a schema without references, in the form that the generator of types reads. */
function plain(schema: JsonSchema, nameOf: NameOfReference): JsonSchema {
  const { $ref, properties, items, anyOf, allOf, additionalProperties, not: _not, oneOf: _rules, ...rest } = schema;
  const { description } = schema;
  const described = description === undefined ? {} : { description };
  if (typeof $ref === 'string') return { ...described, tsType: nameOf($ref) };
  const isOpen = [schema.type, anyOf, allOf, schema.enum, schema.const].every((keyword) => keyword === undefined);
  if (isOpen) return { ...described, tsType: 'unknown' };
  const inner = (one: JsonSchema) => plain(one, nameOf);
  const fields = Object.entries((properties ?? {}) as Record<string, JsonSchema>);
  return {
    ...rest,
    // The type omits unknown fields, which are refused or dropped on arrival.
    ...(properties === undefined ? {} : { additionalProperties: false }),
    ...(additionalProperties === undefined ? {} : { additionalProperties }),
    ...(properties === undefined ? {} : { properties: Object.fromEntries(fields.map(([k, v]) => [k, inner(v)])) }),
    ...(items === undefined ? {} : { items: inner(items as JsonSchema) }),
    ...(anyOf === undefined ? {} : { anyOf: (anyOf as JsonSchema[]).map(inner) }),
    ...(allOf === undefined ? {} : { allOf: (allOf as JsonSchema[]).map(inner) }),
  };
}

/** Returns a source in the layout of the project. @throws Error with the faults of the formatter */
export function formatted(source: string): Promise<string> {
  const biome = path.join(ROOT, 'node_modules/.bin/biome');
  // Biome returns the text of a path that its configuration leaves out unchanged, as it would that of a generated file.
  const args = [biome, 'format', '--stdin-file-path=scripts/generated.ts'];
  return new Promise((resolve, reject) => {
    const options = { cwd: ROOT, maxBuffer: 16_000_000 };
    const child = execFile(process.execPath, args, options, (error, text) => (error ? reject(error) : resolve(text)));
    child.stdin?.end(source);
  });
}
