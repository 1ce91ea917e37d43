import { createHash } from 'node:crypto';
import type { ModelTask } from '#shared/classifier/tasks/task.ts';
import { membersOf } from '#shared/kernel/json.ts';
import { beginningOf } from '#shared/kernel/text.ts';
import type { Schema } from './schema.ts';

/**
 * Returns the mock provider's answer: always the same for the same task, and valid for any task schema. It follows the data:
 * - An array whose items name a question or a criterion gets one item for each that the data (or an `enum`) names.
 * - `questions` gets as many items as the data's `count`.
 * - Scores stay within their `maxScore`, and a score beside scored parts is their sum.
 * - An answer key is the first option.
 */
export function mockAnswer({ kind, data, schema }: Pick<ModelTask, 'kind' | 'data' | 'schema'>): unknown {
  const seed = hexDigest(`${kind}\n${JSON.stringify(data) ?? 'null'}`);
  const chance = (path: string) => Number.parseInt(hexDigest(`${seed}${path}`).slice(0, 12), 16) / 2 ** 48;
  const subject = membersOf(data);
  return sample({ root: schema, data: subject, chance }, schema, { path: '', name: '', made: {}, subject });
}

function hexDigest(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** Input of an answer: the task's schema and data. */
interface Asked {
  root: Schema;
  data: Fields;
  /** Returns a number in [0, 1) that depends only on data and path: an additional field elsewhere does not change it. */
  chance(path: string): number;
}

/** Position of the sampler: its path, the object built so far, and the row of the data that it describes. */
interface Spot {
  path: string;
  name: string;
  made: Fields;
  subject: Fields;
}

type Fields = Readonly<Record<string, unknown>>;

/** Maximum depth at which answer and data are followed: a schema may refer to itself. */
const DEEPEST = 12;

/** Returns a value that the schema admits at this position. */
function sample(asked: Asked, schema: Schema, spot: Spot): unknown {
  const node = followed(asked.root, schema);
  if ('const' in node) return node.const;
  if (Array.isArray(node.enum)) return node.enum[Math.floor(asked.chance(spot.path) * node.enum.length)];
  const branch = firstOf(node.anyOf) ?? firstOf(node.oneOf);
  if (branch !== undefined) return sample(asked, branch, spot);
  switch (typeOf(node)) {
    case 'object':
      return sampleObject(asked, node, spot);
    case 'array':
      return sampleList(asked, node, spot);
    case 'string':
      return mockText(asked, node, spot);
    case 'integer':
    case 'number':
      return mockNumber(asked, node, spot);
    case 'boolean':
      return asked.chance(spot.path) < 0.5;
    default:
      return null;
  }
}

function sampleObject(asked: Asked, node: Schema, { path, subject }: Spot): Fields {
  const properties = Object.entries(membersOf(node.properties));
  const made: Record<string, unknown> = {};
  if (path.split('/').length <= DEEPEST) {
    for (const [name, schema] of inOrderOfMaking(asked.root, properties)) {
      made[name] = sample(asked, membersOf(schema), { path: `${path}/${name}`, name, made, subject });
    }
  }
  return Object.fromEntries(properties.map(([name]) => [name, made[name]]));
}

/** Orders fields as they are made: options, other arrays, the rest. An answer key and a sum depend on the fields beside them. */
function inOrderOfMaking(root: Schema, properties: [string, unknown][]): [string, unknown][] {
  const rank = ([name, schema]: [string, unknown]) => {
    if (name === 'options') return 0;
    return typeOf(followed(root, membersOf(schema))) === 'array' ? 1 : 2;
  };
  return properties.toSorted((a, b) => rank(a) - rank(b));
}

/** Fields that name the subject of an item, in order of precedence. */
const NAMING_FIELDS = ['questionId', 'criterionId', 'id'];
const CHOICES = 4;
const MAX_FREE_ITEMS = 2;

function sampleList(asked: Asked, node: Schema, { path, name, made, subject }: Spot): unknown[] {
  const items = followed(asked.root, membersOf(node.items));
  const properties = membersOf(items.properties);
  const naming = NAMING_FIELDS.find((field) => field in properties);
  const idSchema = followed(asked.root, membersOf(naming === undefined ? {} : properties[naming]));
  const subjects = naming === undefined ? [] : subjectsOf(asked.data, idSchema, name);

  const least = numberOr(node.minItems, 0);
  const most = numberOr(node.maxItems, Number.POSITIVE_INFINITY);
  const isAnswerKey = Array.isArray(made.options) && typeOf(items) === 'string';
  const wanted = isAnswerKey ? 1 : Math.min(most, subjects.length || freeLength(asked, name));
  return Array.from({ length: Math.max(least, wanted) }, (_, index) => {
    const about = subjects[index];
    const item = sample(asked, items, { path: `${path}/${index}`, name, made, subject: about ?? subject });
    return naming === undefined || about?.id === undefined ? item : { ...membersOf(item), [naming]: about.id };
  });
}

/** Returns the length of a list that describes no rows of the data. */
function freeLength({ data }: Asked, name: string): number {
  if (name === 'questions') return numberOr(data.count, 1);
  return name === 'options' ? CHOICES : MAX_FREE_ITEMS;
}

/**
 * Returns the subjects of an array in the answer, each with its `id`. They are the ids that `idSchema` allows, else the data's rows
 * of the same name, else its questions. The result is empty if the data names none, or if the items are to be newly written.
 */
function subjectsOf(data: Fields, idSchema: Schema, arrayName: string): Fields[] {
  if (arrayName === 'options' || (arrayName === 'questions' && data.count !== undefined)) return [];
  const described = [...arraysNamed(data, arrayName), ...arraysNamed(data, 'questions')].find((rows) =>
    rows.every((row) => idOf(row) !== undefined),
  );
  const byId = new Map((described ?? []).map((row) => [idOf(row), membersOf(row)] as const));
  const ids = Array.isArray(idSchema.enum) ? idSchema.enum : described === undefined ? namedIds(data) : byId.keys();
  return [...ids].map((id) => ({ ...byId.get(id), id }));
}

function namedIds({ questionIds }: Fields): unknown[] {
  return Array.isArray(questionIds) ? questionIds : [];
}

function idOf(row: unknown): unknown {
  const { id, questionId } = membersOf(row);
  return id ?? questionId;
}

/** Returns the non-empty arrays of objects with this name, at any depth of the data. */
function arraysNamed(value: unknown, name: string, depth = 0): unknown[][] {
  if (depth > DEEPEST || typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, member]) => [
    ...(key === name && Array.isArray(member) && typeof member[0] === 'object' ? [member] : []),
    ...arraysNamed(member, name, depth + 1),
  ]);
}

/**
 * Returns the sum for a score beside scored parts, and the maximum that the data gives, if the schema admits them. Otherwise a number in the
 * schema's range with few digits.
 */
function mockNumber(asked: Asked, node: Schema, spot: Spot): number {
  const { name, path, made, subject } = spot;
  const given = name === 'score' ? sumOfScores(made) : name === 'maxScore' ? subject.maxScore : undefined;
  if (typeof given === 'number' && isAdmitted(given, node)) return given;

  const { least, most } = rangeOf(asked, node, spot);
  // A mock confidence is at least 0.5.
  const share = name === 'confidence' ? 0.5 + asked.chance(path) / 2 : asked.chance(path);
  const drawn = least + (most - least) * share;
  const isWhole = typeOf(node) === 'integer';
  const rounded = name === 'score' ? scoreAt(share, node, { least, most }) : roundedDown(drawn, isWhole ? 1 : 100);
  // Rounding down may leave the range. Then round an integer up, and do not round another number.
  const isIn = node.exclusiveMinimum === undefined ? rounded >= least : rounded > least;
  return isIn ? rounded : isWhole ? Math.ceil(drawn) : drawn;
}

function isAdmitted(value: number, node: Schema): boolean {
  const { POSITIVE_INFINITY: without } = Number;
  const isAbove = value >= numberOr(node.minimum, value) && value > numberOr(node.exclusiveMinimum, -without);
  const isBelow = value <= numberOr(node.maximum, value) && value < numberOr(node.exclusiveMaximum, without);
  return isAbove && isBelow && (typeOf(node) !== 'integer' || Number.isInteger(value));
}

interface Range {
  least: number;
  most: number;
}

function rangeOf({ data }: Asked, node: Schema, { name, subject }: Spot): Range {
  const least = numberOr(node.minimum, numberOr(node.exclusiveMinimum, 0));
  const usual = Math.max(least, name === 'confidence' ? 1 : 10);
  const most = numberOr(node.maximum, numberOr(node.exclusiveMaximum, usual));
  if (name !== 'score') return { least, most };
  return { least, most: Math.min(most, numberOr(subject.maxScore, numberOr(data.maxScore, most))) };
}

/**
 * Returns one of the range's scores, all equally likely. Full points must be possible, or a criterion of a quarter point would
 * always get 0.
 */
function scoreAt(share: number, node: Schema, { least, most }: Range): number {
  // Quarters of points add up exactly.
  const steps = typeOf(node) === 'integer' ? 1 : 4;
  const span = (most - least) * steps;
  const scores = node.exclusiveMaximum === undefined ? Math.floor(span) + 1 : Math.ceil(span);
  return least + Math.floor(share * scores) / steps;
}

function roundedDown(value: number, steps: number): number {
  return Math.floor(value * steps) / steps;
}

/** Returns the sum of the scored parts beside a score; undefined without scored parts. */
function sumOfScores(made: Fields): number | undefined {
  const parts = Object.values(made).find(
    (value): value is Fields[] => Array.isArray(value) && value.length > 0 && 'score' in membersOf(value[0]),
  );
  return parts?.reduce((sum, part) => sum + numberOr(part.score, 0), 0);
}

const MAX_TEXT_LENGTH = 2_000;

/** Returns the data's value of this field, otherwise a generated name; the first candidate that the schema admits. */
function mockText({ data, chance }: Asked, node: Schema, { name, path, made, subject }: Spot): string {
  const index = Number(path.split('/').findLast((step) => /^\d+$/.test(step)) ?? 0);
  const letter = String.fromCharCode(65 + (index % 26));
  const mark = Math.floor(chance(path) * 2 ** 32).toString(16);
  const candidates = [
    firstOptionId(made, name),
    ['id', 'label'].includes(name) && path.includes('/options/') ? letter : undefined,
    subject[name],
    data[name === 'type' ? 'questionType' : name],
    name === 'tempId' || name === 'id' ? `mock-${index + 1}` : undefined,
    `Mock ${name} ${mark}`,
  ].filter((candidate) => typeof candidate === 'string');
  const fitting = [...candidates, mark, letter, String(index + 1)].find((candidate) => fits(node, candidate));
  return fitting ?? cutToLength(node, candidates.at(-1) ?? '');
}

/** Returns the id of the first option beside an answer key. */
function firstOptionId(made: Fields, name: string): unknown {
  if (!/answer|correct|optionId/i.test(name) || !Array.isArray(made.options)) return undefined;
  return membersOf(made.options[0]).id;
}

function fits(node: Schema, text: string): boolean {
  const { least, most } = lengthsOf(node);
  if (text.length < least || text.length > most) return false;
  return typeof node.pattern !== 'string' || new RegExp(node.pattern, 'u').test(text);
}

function cutToLength(node: Schema, text: string): string {
  const { least, most } = lengthsOf(node);
  return beginningOf(text.padEnd(least, '.'), most);
}

function lengthsOf({ minLength, maxLength }: Schema): { least: number; most: number } {
  return { least: numberOr(minLength, 0), most: numberOr(maxLength, MAX_TEXT_LENGTH) };
}

/** Returns the schema that a local `$ref` (`#/$defs/x`) leads to. */
function followed(root: Schema, schema: Schema): Schema {
  const { $ref } = schema;
  if (typeof $ref !== 'string' || !$ref.startsWith('#/')) return schema;
  return $ref
    .slice(2)
    .split('/')
    .reduce<Schema>((node, step) => membersOf(node[step]), root);
}

/** Returns the first type that is not null. If the schema names none, the type follows from its keywords. */
function typeOf(node: Schema): unknown {
  const { type } = node;
  if (Array.isArray(type)) return type.find((name) => name !== 'null') ?? 'null';
  return type ?? ('properties' in node ? 'object' : 'items' in node ? 'array' : 'null');
}

/** Returns the first schema of a list of choices (`anyOf`, `oneOf`). */
function firstOf(choices: unknown): Schema | undefined {
  return Array.isArray(choices) && choices.length > 0 ? membersOf(choices[0]) : undefined;
}

/** Returns the value if it is a number, else `otherwise`. */
function numberOr(value: unknown, otherwise: number): number {
  return typeof value === 'number' ? value : otherwise;
}
