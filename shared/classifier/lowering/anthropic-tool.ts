import type { Schema } from './schema.ts';

/** A schema as the input of a tool: any JSON Schema may stand there, so it goes whole. */
export function toAnthropic(schema: Schema): Schema {
  const { $schema: _dialect, $id: _id, ...bare } = schema;
  return bare;
}
