import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { FaultDetail } from '#shared/kernel/errors.ts';
import { type QueryParser, queryParser } from './query-parser.ts';
import { resolve } from './resolve.ts';
import { assertSubset, type SchemaDocument, type SchemaNode } from './schema-document.ts';
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
