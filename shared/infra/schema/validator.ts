import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { LRUCache } from 'lru-cache';
import type { FaultDetail } from '#shared/kernel/errors.ts';
import { escapePointer } from '#shared/kernel/json.ts';
import { atOnce, type Pieces } from '#shared/kernel/pieces.ts';
import { hasMarkRun, MARK_RUN_FAULT } from '#shared/kernel/text.ts';
import { faultOf } from './fault-message.ts';
import { assertSubset, resolve, type SchemaDocument, type SchemaNode, typesOf } from './schema-document.ts';
import { type DroppedField, run, type Segment, segmentCompiler } from './segment.ts';

/** Maximum number of faults in a reply, so that replies stay small. */
export const MAX_FAULTS = 1_000;

/**
 * Checks a value and returns its faults; an empty list means that it is valid. Changes the value in place: it deletes optional nulls
 * and the unknown fields of open objects, so that a valid value can be stored as it is.
 */
export type Validator = (value: unknown) => FaultDetail[];

/** The faults of a value, and the unknown fields that its check has deleted outside arrays. */
export interface Checked {
  faults: FaultDetail[];
  dropped: DroppedField[];
}

/** The schema files of one directory. */
export interface Schemas {
  /** Every `$id`, sorted. */
  ids: readonly string[];
  /** Returns a file as it is written. Throws if the id is unknown. */
  document(id: string): SchemaDocument;
  /** Returns a file with all references resolved. Throws if the id is unknown. */
  resolved(id: string): SchemaNode;
  /** Returns a validator. Its first use compiles it, within milliseconds. Call it at start, because an unknown id throws. */
  validator(id: string): Validator;
  /** Returns a validator that works in pieces: for bodies with many items. */
  checker(id: string): (value: unknown) => Pieces<Checked>;
  /** Returns a parser of query strings. Without an id it ignores every plain name and refuses names with brackets. */
  queryParser(id?: string): QueryParser;
}

/**
 * Reads every schema file below `dir` (default: `schemas/` of the project).
 *
 * @throws Error if a file is not in the supported subset or its `$id` is not its path
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
    checker(id) {
      const segment = segmentOf(id);
      return function* check(value) {
        const checked: Checked = { faults: [], dropped: [] };
        yield* run(segment, value, checked.faults, MAX_FAULTS, checked.dropped);
        return checked;
      };
    },
    validator(id) {
      const check = this.checker(id);
      return (value) => atOnce(check(value)).faults;
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

/** Parses a query string without its `?`. Use `query` only if there are no faults. */
export type QueryParser = (search: string) => { query: Record<string, unknown>; faults: FaultDetail[] };

/**
 * Returns a parser for a flat object schema. It converts each text to the integer, number or boolean that the schema declares, and
 * never clamps a value. An empty value counts as absent. Repeated names and runs of combining marks are faults. Unknown names are
 * ignored, but names with brackets are always faults:
 * `?status[$ne]=X` must never become an object.
 */
export function queryParser(schema: SchemaNode, validate: (value: unknown) => FaultDetail[]): QueryParser {
  const declared = new Map(Object.entries(schema.properties ?? {}));
  return (search) => {
    const query: Record<string, unknown> = {};
    const faults: FaultDetail[] = [];
    const seen = new Set<string>();
    for (const [name, text] of new URLSearchParams(search)) {
      const path = `/${escapePointer(name)}`;
      const field = declared.get(name);
      if (/[[\]]/.test(name)) faults.push({ path, message: 'must be a plain name without brackets' });
      else if (field && seen.has(name)) faults.push({ path, message: 'must appear once' });
      else if (field && hasMarkRun(text)) faults.push({ path, message: MARK_RUN_FAULT });
      else if (field) {
        seen.add(name);
        // A form sends each of its fields, the empty ones too.
        if (text !== '') query[name] = converted(text, typesOf(field));
      }
    }
    const repeated = new Set(faults.map((fault) => fault.path));
    return { query, faults: [...faults, ...validate(query).filter((fault) => !repeated.has(fault.path))] };
  };
}

/** Converts a text to a declared type. A text that cannot be converted stays a text, and the schema refuses it by its type. */
function converted(text: string, types: readonly string[]): unknown {
  if (types.includes('integer') && /^-?\d+$/.test(text)) return Number(text);
  if (types.includes('number') && /^-?\d+(\.\d+)?$/.test(text)) return Number(text);
  if (types.includes('boolean') && (text === 'true' || text === 'false')) return text === 'true';
  return text;
}

/** Returns the faults of a model's answer; an empty list means that it is valid. */
type AnswerCheck = (value: unknown) => FaultDetail[];

/** Maximum number of reported faults. A longer list does not help a model to correct its answer, and its tokens cost. */
export const MAX_ANSWER_FAULTS = 20;
/** Maximum number of cached checks. A schema that contains ids of one request never occurs again. */
const MAX_CACHED_CHECKS = 100;

/**
 * Returns a function that compiles the check of a model's answers against the schema of its task. Task schemas are our own and may use
 * all of JSON Schema 2020-12, unlike the schemas of bodies in `schemas/`.
 *
 * The checks used last are cached, because compiling takes longer than all of our other work for a provider call.
 */
export function openAnswerChecks(): (schema: Readonly<Record<string, unknown>>) => AnswerCheck {
  const cache = new LRUCache<string, AnswerCheck>({ max: MAX_CACHED_CHECKS });
  return (schema) => {
    const text = JSON.stringify(schema);
    const known = cache.get(text);
    if (known !== undefined) return known;
    const check = compiled(schema);
    cache.set(text, check);
    return check;
  };
}

/** Compiles a check with a new ajv, because an ajv never frees the schemas that it has compiled. */
function compiled(schema: Readonly<Record<string, unknown>>): AnswerCheck {
  const ajv = new Ajv2020({
    strict: false,
    // Without `strict`, ajv takes NaN and Infinity for numbers. JSON has none, but 1e999 is read as Infinity.
    strictNumbers: true,
    validateFormats: false,
    allErrors: true,
    verbose: true,
    messages: false,
    // A test checks the schemas of the tasks against the meta-schema. Compiling it here would take longer than the schema.
    meta: false,
    validateSchema: false,
  });
  const check = ajv.compile(schema);
  return (value) => {
    if (check(value)) return [];
    return (check.errors ?? []).slice(0, MAX_ANSWER_FAULTS).map((error) => faultOf(error, ''));
  };
}
