import type { FaultDetail } from '#shared/kernel/errors.ts';
import { escapePointer } from './fault-message.ts';
import { typesOf } from './resolve.ts';
import type { SchemaNode } from './schema-document.ts';

/** A query string without its `?`. `query` is to be used only when there are no faults. */
export type QueryParser = (search: string) => { query: Record<string, unknown>; faults: FaultDetail[] };

/**
 * Reads a query by a flat object schema. A field is one plain string, turned into the integer, number or boolean that the
 * schema declares, never clamped. Repeats and brackets are faults: `?status[$ne]=X` must never become an object.
 * Unknown names are ignored, bracketed ones refused even then.
 */
export function queryParser(schema: SchemaNode, validate: (value: unknown) => FaultDetail[]): QueryParser {
  const declared = new Map(Object.entries(schema.properties ?? {}));
  return (search) => {
    const query: Record<string, unknown> = {};
    const faults: FaultDetail[] = [];
    for (const [name, text] of new URLSearchParams(search)) {
      const path = `/${escapePointer(name)}`;
      const field = declared.get(name);
      if (/[[\]]/.test(name)) faults.push({ path, message: 'must be a plain name without brackets' });
      else if (field && Object.hasOwn(query, name)) faults.push({ path, message: 'must be given once' });
      else if (field) query[name] = converted(text, typesOf(field));
    }
    const repeated = new Set(faults.map((fault) => fault.path));
    return { query, faults: [...faults, ...validate(query).filter((fault) => !repeated.has(fault.path))] };
  };
}

/** A text that is no number stays a text, which the schema then refuses by type. */
function converted(text: string, types: readonly string[]): unknown {
  if (types.includes('integer') && /^-?\d+$/.test(text)) return Number(text);
  if (types.includes('number') && /^-?\d+(\.\d+)?$/.test(text)) return Number(text);
  if (types.includes('boolean') && (text === 'true' || text === 'false')) return text === 'true';
  return text;
}
