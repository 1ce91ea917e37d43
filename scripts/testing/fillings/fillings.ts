import type { SchemaNode } from '#infra/schema/schema-document.ts';
import { beginningOf } from '#shared/kernel/text.ts';
import { kindOf, type Place } from './places.ts';

/** Returns a text of about this many UTF-16 units, and no more. */
type TextOf = (length: number) => string;

const repeated =
  (unit: string): TextOf =>
  (length) =>
    beginningOf(unit.repeat(Math.ceil(length / unit.length)), length);
const [ABOVE, BELOW] = ['\u0301', '\u0323'];

const letters = repeated('Hai đường thẳng song song không cắt nhau. ');
/** Letters for a text with a pattern: most patterns are those of ids. */
const plainLetters = repeated('abcdefghijklmnopqrstu');

/** Texts of kinds that have made software slow. */
const HOSTILE_TEXTS: Readonly<Record<string, TextOf>> = {
  // Normalization sorts the marks of a letter. These runs have the longest permitted length.
  'permitted marks': repeated(`a${ABOVE.repeat(15)}${BELOW.repeat(15)}`),
  // The sort of one run takes the square of its length.
  'a run of marks': (length) => `a${ABOVE.repeat(length / 2)}${BELOW.repeat(length)}`.slice(0, length),
  spaces: (length) => `a${' '.repeat(length)}`.slice(0, length),
  digits: repeated('7'),
  // Escapes of JSON and of markup, a letter whose lower case has two characters, and a pair of units.
  'letters to escape': repeated('"\\<İ😀'),
};
/** Kinds whose cost is that of their length: names are too short for them. */
const FOR_LONG_TEXTS: readonly string[] = ['permitted marks', 'a run of marks'];
/** Kinds for lists of records, whose texts are places of their own as well. */
const FOR_RECORDS: readonly string[] = ['permitted marks', 'letters to escape'];

export interface Filling {
  name: string;
  /** Returns the JSON of the largest value that its schema and `room` (bytes) admit. `n` differs between calls, and so do the values. */
  write(place: Place, sample: unknown, room: number, n: number): string;
}

/** A hostile filling, and the harmless one of the same size and of as many values. */
export interface Pair {
  hostile: Filling;
  harmless: Filling;
}

export function fillingsOf({ kind, node }: Place): readonly Pair[] {
  if (kind === 'record') return MEMBERS;
  if (kind === 'map') return [...TEXTS, ...MEMBERS];
  if (kind === 'text')
    return isName(node) ? TEXTS.filter(({ hostile }) => !FOR_LONG_TEXTS.includes(hostile.name)) : TEXTS;
  const isOfRecords = kindOf(node.items ?? {}) === 'record';
  return isOfRecords ? TEXTS.filter(({ hostile }) => FOR_RECORDS.includes(hostile.name)) : TEXTS;
}

function ofTexts(name: string, textOf: TextOf): Filling {
  return {
    name,
    write: ({ node }, sample, room, n) =>
      JSON.stringify(grown(node, sample, room, { textOf, suffix: `-${n}`, isItem: false })),
  };
}

/** Returns a filling of as many members as there is room for. `memberOf` returns the JSON of the one at an index. */
function ofMembers(name: string, memberOf: (name: string, n: number, maxDepth: number) => string): Filling {
  return {
    name,
    write({ node }, _sample, room, n) {
      const members: string[] = [];
      for (let [index, left] = [0, bounded(node, room) - 1]; ; index += 1) {
        const member = memberOf(index.toString(36), n % 10, node['x-max-depth'] ?? MAX_DEPTH);
        left -= member.length + 1;
        if (left < 0) return `{${members.join()}}`;
        members.push(member);
      }
    },
  };
}

/** Deepest nesting of a map that declares none. A body may have 64 levels, a few of which are above the map. */
const MAX_DEPTH = 56;
/** Members of an object, and items of a list, that are not many: the fields that a record may have. */
const FEW = 1_000;

const LETTERS = ofTexts('letters', letters);
const TEXTS: readonly Pair[] = Object.entries(HOSTILE_TEXTS).map(([name, textOf]) => ({
  hostile: ofTexts(name, textOf),
  harmless: LETTERS,
}));
const few = (of: (index: string) => string) => Array.from({ length: FEW }, (_, n) => of(n.toString(36))).join();
const MEMBERS: readonly Pair[] = [
  {
    hostile: ofMembers('many members', (name, n) => `"${name}":${n}`),
    harmless: ofMembers(
      'objects of few members',
      (name, n) => `"${name}":{${few((index) => `"${name}${index}":${n}`)}}`,
    ),
  },
  {
    hostile: ofMembers(
      'nested lists',
      (name, n, depth) => `"${name}":${'['.repeat(depth - 1)}${n}${']'.repeat(depth - 1)}`,
    ),
    harmless: ofMembers('lists side by side', (name, n) => `"${name}":[${few(() => `[${n}]`)}]`),
  },
];

function bounded({ 'x-max-json-bytes': maxBytes = Number.POSITIVE_INFINITY }: SchemaNode, room: number): number {
  return Math.min(room, maxBytes);
}

interface Growth {
  textOf: TextOf;
  /** Makes the short texts of an item its own: ids must differ. */
  suffix: string;
  /** True below a list: its names are those of the sample, so that a list which names the items of another still does. */
  isItem: boolean;
}

/** Texts of at most this length are taken for names, which differ between the items of a list. */
const NAME_LENGTH = 255;

/**
 * Returns the largest value of a node in `room` bytes of JSON. Lists have as many items as they may; items are like their sample, and
 * the room that they leave belongs to their texts.
 */
function grown(node: SchemaNode, sample: unknown, room: number, growth: Growth): unknown {
  switch (kindOf(node)) {
    case 'text':
      return growth.isItem && isName(node) ? `${sample ?? 'a'}${growth.suffix}` : textIn(node, room, growth);
    case 'list':
      return listIn(node, sample, room, growth);
    case 'map':
      return { text: textIn({}, bounded(node, room) - '{"text":""}'.length, growth) };
    case 'record':
      return recordIn(node, sample, room, growth);
    case null:
      return sample ?? sampleOf(node);
  }
}

function isName({ maxLength = Number.POSITIVE_INFINITY }: SchemaNode): boolean {
  return maxLength <= NAME_LENGTH;
}

/** True for a short text that is no id, such as the type of a question: another one would be unknown. */
function isCode(name: string, node: SchemaNode): boolean {
  return kindOf(node) === 'text' && isName(node) && !/id$/i.test(name);
}

/** A length that each repeated text fills with whole repetitions, and the bytes by which a cut repetition may be longer than others. */
const PERIODS = 42 * 31 * 2;
const SPARE_BYTES = 64;

function textIn(
  { minLength = 0, maxLength = Number.POSITIVE_INFINITY, pattern }: SchemaNode,
  room: number,
  { textOf, suffix }: Growth,
): string {
  const bytesOfPeriods = Buffer.byteLength(JSON.stringify(textOf(PERIODS))) - 2;
  const fitting = Math.floor(((room - SPARE_BYTES) * PERIODS) / bytesOfPeriods);
  const length = Math.max(minLength, Math.min(maxLength, fitting));
  const text = length > suffix.length ? textOf(length - suffix.length) + suffix : textOf(length);
  const isRefused = textOf === letters && pattern !== undefined && !new RegExp(pattern, 'u').test(text);
  return isRefused ? plainLetters(length - suffix.length) + suffix : text;
}

function listIn(node: SchemaNode, sample: unknown, room: number, growth: Growth): unknown[] {
  const { minItems = 0, maxItems = Number.POSITIVE_INFINITY } = node;
  // Without room too, a list keeps one item if its sample has one: rules require it of some lists, such as that of the correct options.
  const least = Math.max(minItems, Array.isArray(sample) && sample.length > 0 ? 1 : 0);
  const fitting = Math.floor(room / leastItem(node, sample, growth));
  const count = Math.max(least, Math.min(maxItems, fitting));
  const each = Math.floor(room / count) - 1;
  return Array.from({ length: count }, (_, index) => itemIn(node, sample, each, index, growth));
}

/** Returns the bytes of the smallest item, with its comma. */
function leastItem(node: SchemaNode, sample: unknown, growth: Growth): number {
  return Buffer.byteLength(JSON.stringify(itemIn(node, sample, 0, 999, growth))) + 1;
}

function itemIn({ items = {} }: SchemaNode, sample: unknown, room: number, index: number, growth: Growth): unknown {
  if (items.enum !== undefined) return items.enum[index % items.enum.length];
  const first = Array.isArray(sample) ? sample[0] : undefined;
  const isItem = growth.isItem || kindOf(items) === 'record';
  return grown(items, first, room, { ...growth, isItem, suffix: `${growth.suffix}-${index}` });
}

/** Returns a record with the members of its sample: first as many items as its lists may have, then texts in what room is left. */
function recordIn(node: SchemaNode, sample: unknown, room: number, growth: Growth): Record<string, unknown> {
  const { properties = {} } = node;
  const known = { ...(sampleOf(node) as object), ...(sample as object) } as Record<string, unknown>;
  const fields = Object.keys(known).flatMap((name) => {
    const field = properties[name];
    return field === undefined || known[name] === null ? [] : [{ name, field, sample: known[name] }];
  });
  const record = Object.fromEntries(
    fields.map(({ name, field, sample }) => [
      name,
      growth.isItem && isCode(name, field) ? sample : grown(field, sample, 0, growth),
    ]),
  );
  const left = () => Math.max(0, room - Buffer.byteLength(JSON.stringify(record)));

  const growing = fields.filter(({ field }) => kindOf(field) !== null && !isName(field));
  // Lists that name each other's items have equally many, if there is room for all of them.
  const lists = growing.filter(({ field }) => kindOf(field) === 'list');
  for (const { name, field, sample } of lists) {
    const wanted = leastItem(field, sample, growth) * (field.maxItems ?? 0);
    record[name] = grown(field, sample, Math.min(left(), wanted), growth);
  }
  const others = growing.filter((one) => !lists.includes(one));
  const share = Math.floor(left() / Math.max(1, others.length));
  for (const { name, field, sample } of others) record[name] = grown(field, sample, share, growth);
  return record;
}

/** Returns the least value that a node admits, as far as its keywords state it. */
export function sampleOf(node: SchemaNode): unknown {
  if (node.const !== undefined) return node.const;
  if (node.enum !== undefined) return node.enum[0];
  switch (kindOf(node)) {
    case 'text':
      return 'a'.repeat(node.minLength ?? 1);
    case 'list':
      return Array.from({ length: node.minItems ?? 0 }, () => sampleOf(node.items ?? {}));
    case 'map':
      return {};
    case 'record':
      return Object.fromEntries((node.required ?? []).map((name) => [name, sampleOf(node.properties?.[name] ?? {})]));
    case null:
      if (node.format !== undefined) return '2026-09-01T08:00:00Z';
      return node.type === 'boolean' ? true : Math.max(node.minimum ?? 1, 1);
  }
}
