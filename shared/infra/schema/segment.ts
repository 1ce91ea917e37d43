import type { ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { FaultDetail } from '#shared/kernel/errors.ts';
import { parseInstant } from '#shared/kernel/time.ts';
import { escapePointer, faultOf } from './fault-message.ts';
import { admitsNull, type SchemaNode, typesOf } from './schema-document.ts';

/**
 * A schema down to its arrays: ajv checks all of it at once and reports every fault, the items of each array are
 * segments of their own. So the faults that one ajv run can make are bounded by the size of a schema, never by
 * the size of a body: 8 MiB of `[{},{},...]` under plain `allErrors` would make millions of error objects.
 */
export interface Segment {
  shape: Shape;
  check: ValidateFunction;
}

/** What must be done to a value before ajv sees it, and where its arrays are. */
interface Shape {
  fields?: ReadonlyMap<string, Field>;
  unknown: 'refused' | 'dropped' | 'kept';
  items?: { segment: Segment; max: number };
  timestamp: boolean;
  free?: { maxBytes: number | undefined };
}

interface Field {
  shape: Shape;
  /** Its step in the path of a fault, made once: nearly every member of every body passes without one. */
  step: string;
  /** An absent field, when null came: optional, and its schema does not admit null. */
  nullMeansAbsent: boolean;
}

type Compile = (node: SchemaNode) => Segment;

/** Segments made by one ajv, in which equal compiled code is not shared: make one per schema directory. */
export function segmentCompiler(): Compile {
  const ajv = new Ajv2020({
    allErrors: true,
    strict: true,
    allowUnionTypes: true,
    verbose: true,
    messages: false,
    // The files are checked against the meta-schema by a test; compiling it would double the time of a boot.
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
      const required = new Set(node.required);
      shape.fields = new Map(
        Object.entries(node.properties).map(([name, field]) => [
          name,
          {
            shape: shapeOf(field),
            step: `/${escapePointer(name)}`,
            nullMeansAbsent: !required.has(name) && !admitsNull(field),
          },
        ]),
      );
    } else if (typesOf(node).includes('object')) {
      shape.free = { maxBytes: node['x-max-json-bytes'] };
    }
    return shape;
  };
  const compile: Compile = (node) => ({ shape: shapeOf(node), check: ajv.compile(withoutArrays(node)) });
  return compile;
}

/** What is left to ajv: unknown fields and the insides of arrays and free maps are the walk's. */
function withoutArrays(node: SchemaNode): SchemaNode {
  const { items: _items, additionalProperties: _unknown, description: _text, examples: _examples, ...rest } = node;
  const { 'x-unknown-fields': _dropped, 'x-max-json-bytes': _bytes, 'x-bare': _bare, ...kept } = rest;
  if (!kept.properties) return kept;
  const properties = Object.entries(kept.properties).map(([name, field]) => [name, withoutArrays(field)] as const);
  return { ...kept, properties: Object.fromEntries(properties) };
}

/** No object of ours has a tenth of it; deleting a million unknown fields one by one would hold up every other caller. */
const MAX_FIELDS = 1_000;

/**
 * Checks `value` against a segment and the segments below it, appending at most `limit` faults in all. Changes `value`
 * in place: nulls that mean "absent" and dropped fields are deleted, timestamps get a capital T and Z.
 */
export function run(segment: Segment, value: unknown, path: string, faults: FaultDetail[], limit: number): void {
  const arrays: { items: unknown[]; path: string; segment: Segment; max: number }[] = [];
  const add = (fault: FaultDetail): boolean => faults.length < limit && faults.push(fault) < limit;

  const visit = (shape: Shape, at: unknown, here: string): void => {
    if (typeof at === 'string' && !at.isWellFormed()) add({ path: here, message: 'must be well-formed Unicode text' });
    if (Array.isArray(at)) {
      if (shape.items) arrays.push({ items: at, path: here, segment: shape.items.segment, max: shape.items.max });
      return;
    }
    if (typeof at !== 'object' || at === null) return;
    if (shape.free) {
      const message = freeJsonFault(at, shape.free.maxBytes);
      if (message !== undefined) add({ path: here, message });
    } else if (shape.fields) {
      visitFields(shape.fields, shape.unknown, at as Record<string, unknown>, here);
    }
  };

  const visitFields = (
    fields: ReadonlyMap<string, Field>,
    unknown: Shape['unknown'],
    object: Record<string, unknown>,
    here: string,
  ): void => {
    const names = Object.keys(object);
    if (names.length > MAX_FIELDS) {
      add({ path: here, message: `must have at most ${MAX_FIELDS} fields` });
      return;
    }
    for (const name of names) {
      const field = fields.get(name);
      const member = object[name];
      if (!field) {
        if (unknown === 'dropped') delete object[name];
        const fault = { path: `${here}/${escapePointer(name)}`, message: 'is not a known field' };
        if (unknown === 'refused' && !add(fault)) return;
      } else if (member === null && field.nullMeansAbsent) {
        delete object[name];
      } else if (field.shape.timestamp && typeof member === 'string') {
        // RFC 3339 allows small letters; Date.parse would read those by another, laxer grammar.
        if (parseInstant(member) !== null) object[name] = member.toUpperCase();
      } else {
        visit(field.shape, member, here + field.step);
      }
    }
  };

  visit(segment.shape, value, path);
  if (faults.length >= limit) return;
  if (!segment.check(value)) {
    const errors = segment.check.errors ?? [];
    for (const error of errors) add(faultOf(error, path));
  }
  for (const array of arrays) {
    const count = Math.min(array.items.length, array.max);
    for (let index = 0; index < count && faults.length < limit; index += 1) {
      run(array.segment, array.items[index], `${array.path}/${index}`, faults, limit);
    }
  }
}

/**
 * What keeps a free map (event metadata) from being kept as JSON text and given back unchanged, or undefined: an
 * infinity (`1e400`) would come back as null. The caller has bounded the depth (64) and the size of the whole body.
 */
function freeJsonFault(value: unknown, maxBytes: number | undefined): string | undefined {
  if (holdsInfinity(value)) return 'must hold finite numbers only';
  if (maxBytes === undefined) return undefined;
  return Buffer.byteLength(JSON.stringify(value)) > maxBytes
    ? `must have at most ${maxBytes} bytes of JSON`
    : undefined;
}

function holdsInfinity(value: unknown): boolean {
  if (typeof value === 'number') return !Number.isFinite(value);
  return typeof value === 'object' && value !== null && Object.values(value).some(holdsInfinity);
}
