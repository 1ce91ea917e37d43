import type { ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { FaultDetail } from '#shared/kernel/errors.ts';
import { escapePointer } from '#shared/kernel/json.ts';
import { atOnce, type Pieces } from '#shared/kernel/pieces.ts';
import { parseInstant } from '#shared/kernel/time.ts';
import { faultOf } from './fault-message.ts';
import { type FreeLimits, freeJsonFault } from './free-map.ts';
import { nullMeansAbsent, type SchemaNode, typesOf } from './schema-document.ts';

/**
 * A schema down to its arrays. ajv checks a segment in one run and reports every fault. The items of each array are separate segments.
 *
 * The size of a schema, not of a body, therefore limits the faults of one ajv run. With plain `allErrors`, 8 MiB of `[{},{},...]`
 * would cause millions of error objects.
 */
export interface Segment {
  shape: Shape;
  /** Returns ajv's part, which the first call compiles: a few milliseconds. Most processes need a few of the schemas only. */
  check(): ValidateFunction;
}

/** The work on a value before ajv checks it, and the places of its arrays. */
interface Shape {
  fields?: ReadonlyMap<string, Field>;
  unknown: 'refused' | 'dropped' | 'kept';
  items?: { segment: Segment; max: number };
  timestamp: boolean;
  free?: FreeLimits;
}

interface Field {
  shape: Shape;
  /** Its part of a JSON pointer, computed once, because nearly every member of every body passes through here. */
  step: string;
  /** True if null means "absent": the field is optional, and its schema does not admit null. */
  nullMeansAbsent: boolean;
}

type Compile = (node: SchemaNode) => Segment;

/** Returns a compiler of segments with its own ajv. Equal schemas do not share code; make one compiler per schema directory. */
export function segmentCompiler(): Compile {
  const ajv = new Ajv2020({
    allErrors: true,
    strict: true,
    allowUnionTypes: true,
    verbose: true,
    messages: false,
    // A test checks the files against the meta-schema. Compiling it here would double the time of a start.
    meta: false,
    validateSchema: false,
    formats: { 'date-time': (text: string) => parseInstant(text) !== null },
    keywords: ['x-message'],
  });

  const shapeOf = (node: SchemaNode): Shape => {
    const shape: Shape = {
      unknown: node['x-unknown-fields'] ?? (node.additionalProperties === false ? 'refused' : 'kept'),
      timestamp: node.format === 'date-time',
    };
    if (node.items) shape.items = { segment: compile(node.items), max: node.maxItems ?? Number.POSITIVE_INFINITY };
    if (node.properties) {
      shape.fields = new Map(
        Object.entries(node.properties).map(([name, field]) => [
          name,
          {
            shape: shapeOf(field),
            step: `/${escapePointer(name)}`,
            nullMeansAbsent: nullMeansAbsent(node, name, field),
          },
        ]),
      );
    } else if (typesOf(node).includes('object')) {
      shape.free = { maxBytes: node['x-max-json-bytes'], maxDepth: node['x-max-depth'] };
    }
    return shape;
  };
  const compile: Compile = (node) => {
    let check: ValidateFunction | undefined;
    return {
      shape: shapeOf(node),
      check() {
        check ??= ajv.compile(withoutArrays(node));
        return check;
      },
    };
  };
  return compile;
}

/** Returns the part of a schema that ajv checks. Unknown fields, array items and free maps are checked by `run`. */
function withoutArrays(node: SchemaNode): SchemaNode {
  const { items: _items, additionalProperties: _unknown, description: _text, examples: _examples, ...rest } = node;
  const { 'x-unknown-fields': _dropped, 'x-max-json-bytes': _bytes, 'x-max-depth': _depth, ...named } = rest;
  const { 'x-bare': _bare, ...kept } = named;
  if (!kept.properties) return kept;
  const properties = Object.entries(kept.properties).map(([name, field]) => [name, withoutArrays(field)] as const);
  return { ...kept, properties: Object.fromEntries(properties) };
}

/**
 * Maximum number of fields in an object, ten times more than any of ours has. Deleting a million unknown fields one by one would
 * block every other request.
 */
const MAX_FIELDS = 1_000;

/** Message of a fault, or of a hint, that names an unknown field. */
export const UNKNOWN_FIELD = 'is not a known field';

/** An unknown field that was deleted from a value. `path` is a JSON pointer. */
export interface DroppedField {
  path: string;
  name: string;
}

/** A list of faults that ends at `limit`, and the arrays whose items are still to be checked. */
interface Work {
  faults: FaultDetail[];
  limit: number;
  /** Gets the dropped fields; undefined for the items of an array, whose fields are not listed. */
  dropped?: DroppedField[];
  arrays: Items[] | undefined;
  /** Free maps whose members are still to be seen. */
  maps: { map: object; path: string; limits: FreeLimits }[] | undefined;
}

/** The items of an array that are still to be checked: at most as many as its schema admits. */
interface Items {
  values: unknown[];
  path: string;
  segment: Segment;
  count: number;
}

/** Appends a fault unless the list is full. Returns true if the list has room for another. */
function add({ faults, limit }: Work, fault: FaultDetail): boolean {
  return faults.length < limit && faults.push(fault) < limit;
}

/**
 * Checks `value` against a segment and the segments below it, and appends faults until the list has `limit` entries. Changes `value` in
 * place: it deletes nulls that mean "absent" and dropped fields, and writes the T and Z of timestamps as capitals. Appends to `dropped` the
 * fields that it has dropped outside arrays.
 *
 * The items of the body's own arrays are pieces. What is below an item, or beside them, is at most as large as one.
 */
export function* run(
  segment: Segment,
  value: unknown,
  faults: FaultDetail[],
  limit: number,
  dropped: DroppedField[] = [],
): Pieces<void> {
  const work = checkTop(segment, value, '', { faults, limit, dropped });
  yield* checkMaps(work);
  for (const items of work.arrays ?? []) {
    for (let index = 0; index < items.count && faults.length < limit; index += 1) {
      checkItem(items, index, work);
      yield;
    }
  }
}

function checkItem({ values, path, segment }: Items, index: number, { faults, limit }: Work): void {
  const work = checkTop(segment, values[index], `${path}/${index}`, { faults, limit });
  atOnce(checkMaps(work));
  for (const items of work.arrays ?? []) {
    for (let at = 0; at < items.count && faults.length < limit; at += 1) checkItem(items, at, work);
  }
}

/** Checks `value` down to its arrays and free maps. If the list of faults is then full, none of them needs a check. */
function checkTop(
  segment: Segment,
  value: unknown,
  path: string,
  lists: Pick<Work, 'faults' | 'limit' | 'dropped'>,
): Work {
  const { faults, limit } = lists;
  const work: Work = { ...lists, arrays: undefined, maps: undefined };
  visit(work, segment.shape, value, path);
  if (faults.length < limit) {
    const check = segment.check();
    if (!check(value)) for (const error of check.errors ?? []) add(work, faultOf(error, path));
  }
  return faults.length < limit ? work : { ...work, arrays: undefined, maps: undefined };
}

function* checkMaps(work: Work): Pieces<void> {
  for (const { map, path, limits } of work.maps ?? []) {
    const message = yield* freeJsonFault(map, limits);
    if (message !== undefined) add(work, { path, message });
  }
}

function visit(work: Work, shape: Shape, at: unknown, here: string): void {
  if (typeof at === 'string') {
    if (!at.isWellFormed()) add(work, { path: here, message: 'must be well-formed Unicode text' });
  } else if (typeof at !== 'object' || at === null) {
    return;
  } else if (Array.isArray(at)) {
    if (shape.items === undefined) return;
    work.arrays ??= [];
    const { segment, max } = shape.items;
    work.arrays.push({ values: at, path: here, segment, count: Math.min(at.length, max) });
  } else if (shape.free) {
    work.maps ??= [];
    work.maps.push({ map: at, path: here, limits: shape.free });
  } else if (shape.fields) {
    visitFields(work, { fields: shape.fields, unknown: shape.unknown }, at as Record<string, unknown>, here);
  }
}

function visitFields(
  work: Work,
  { fields, unknown }: { fields: ReadonlyMap<string, Field>; unknown: Shape['unknown'] },
  object: Record<string, unknown>,
  here: string,
): void {
  const names = Object.keys(object);
  if (names.length > MAX_FIELDS) {
    add(work, { path: here, message: `must have at most ${MAX_FIELDS} fields` });
    return;
  }
  for (const name of names) {
    const field = fields.get(name);
    const member = object[name];
    if (!field) {
      const path = `${here}/${escapePointer(name)}`;
      if (unknown === 'dropped') {
        delete object[name];
        work.dropped?.push({ path, name });
      }
      if (unknown === 'refused' && !add(work, { path, message: UNKNOWN_FIELD })) return;
    } else if (member === null && field.nullMeansAbsent) {
      delete object[name];
    } else if (field.shape.timestamp && typeof member === 'string') {
      // RFC 3339 allows lower-case letters, but Date.parse would read them by a laxer grammar.
      if (parseInstant(member) !== null) object[name] = member.toUpperCase();
    } else {
      visit(work, field.shape, member, here + field.step);
    }
  }
}
