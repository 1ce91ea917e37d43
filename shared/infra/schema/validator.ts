import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { FaultDetail } from '#shared/kernel/errors.ts';
import { escapePointer, faultOf } from './fault-message.ts';
import { assertSubset, resolve, type SchemaDocument, type SchemaNode, typesOf } from './schema-document.ts';
import { run, type Segment, segmentCompiler } from './segment.ts';

/** More faults than this help nobody, and a reply must stay small. */
export const MAX_FAULTS = 1_000;

/**
 * Checks a value; `[]` = it fits. The value is changed in place: an optional null is deleted, unknown fields of
 * open objects are deleted, so that what passed is what may be stored.
 */
export type Validator = (value: unknown) => FaultDetail[];

/** The schema files of one directory. */
export interface Schemas {
  /** Every `$id`, sorted. */
  ids: readonly string[];
  /** A file as it is written. */
  document(id: string): SchemaDocument;
  /** A file with all its references put in place. */
  resolved(id: string): SchemaNode;
  /** Compiled at the first call and kept. Ask at boot: an unknown id throws, and compiling takes milliseconds. */
  validator(id: string): Validator;
  /** Reads a query string; without an id every plain name is let through unread. */
  queryParser(id?: string): QueryParser;
}

/**
 * Reads every schema file below `dir` (default: `schemas/` of the project).
 * @throws Error when a file is not in the supported subset or its `$id` is not its path
 */
export function loadSchemas(dir: string | URL = new URL('../../../schemas/', import.meta.url)): Schemas {
  const documents = readDocuments(typeof dir === 'string' ? dir : fileURLToPath(dir));
  const compile = segmentCompiler();
  const segments = new Map<string, Segment>();

  const segmentOf = (id: string): Segment => {
    const segment = segments.get(id) ?? compile(resolve(documents, id));
    segments.set(id, segment);
    return segment;
  };
  return {
    ids: [...documents.keys()].sort(),
    document(id) {
      const document = documents.get(id);
      if (!document) throw new Error(`schema ${id} does not exist`);
      return document;
    },
    resolved: (id) => resolve(documents, id),
    validator(id) {
      const segment = segmentOf(id);
      return (value) => {
        const faults: FaultDetail[] = [];
        run(segment, value, '', faults, MAX_FAULTS);
        return faults;
      };
    },
    queryParser(id) {
      if (id === undefined) return queryParser({}, () => []);
      return queryParser(resolve(documents, id), this.validator(id));
    },
  };
}

function readDocuments(root: string): ReadonlyMap<string, SchemaDocument> {
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.json'));
  const documents = new Map<string, SchemaDocument>();
  for (const file of files) {
    const document = JSON.parse(readFileSync(`${root}/${file}`, 'utf8')) as SchemaDocument;
    const id = file.slice(0, -'.json'.length).replaceAll('\\', '/');
    if (document.$id !== id) throw new Error(`${file}: $id must be ${id}`);
    assertSubset(document);
    documents.set(id, document);
  }
  return documents;
}

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

/** What an answer has against itself; `[]` = it fits. */
type AnswerCheck = (value: unknown) => FaultDetail[];

/** More faults than this help nobody to do better. */
const MAX_ANSWER_FAULTS = 20;
/** A schema that names ids of its own is not seen again: it goes with the oldest. */
const MAX_KEPT_CHECKS = 100;

/**
 * Checks of what models answer against the whole schema of their task. For our own task schemas, in any part of JSON Schema
 * 2020-12, unlike those in `schemas/`, which bodies are checked by. Compiling one takes longer than everything else of an ask that is ours:
 * the newest are kept.
 */
export function openAnswerChecks(): (schema: Readonly<Record<string, unknown>>) => AnswerCheck {
  const kept = new Map<string, AnswerCheck>();
  return (schema) => {
    const text = JSON.stringify(schema);
    const known = kept.get(text);
    if (known !== undefined) return known;
    const check = compiled(schema);
    kept.set(text, check);
    const [oldest] = kept.keys();
    if (kept.size > MAX_KEPT_CHECKS && oldest !== undefined) kept.delete(oldest);
    return check;
  };
}

/** By an ajv of its own: what one has compiled it never forgets. */
function compiled(schema: Readonly<Record<string, unknown>>): AnswerCheck {
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true, verbose: true, messages: false });
  const check = ajv.compile(schema);
  return (value) => {
    if (check(value)) return [];
    return (check.errors ?? []).slice(0, MAX_ANSWER_FAULTS).map((error) => faultOf(error, ''));
  };
}
