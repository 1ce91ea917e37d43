import { createHash } from 'node:crypto';
import { membersOf } from '../kernel/json-object.ts';
import type { Schema } from './lowering/schema.ts';
import type { ModelTask } from './model-task.ts';

type Fields = Readonly<Record<string, unknown>>;

/** Where the sampler stands: the path to here, the object being made so far, and the part of the data that it speaks of. */
interface Spot {
  path: string;
  name: string;
  made: Fields;
  subject: Fields;
}

/** Fields by which an answer names what it speaks of, in the order in which they are looked for. */
const NAMING_FIELDS = ['questionId', 'criterionId', 'id'];
const CHOICES = 4;
const MOST_FREE_ITEMS = 2;
const DEEPEST = 12;

/**
 * An answer as the mock provider gives it: always the same for the same task, and one that the task's schema admits,
 * whatever it is. It speaks of what the data speaks of: an array whose items name a question or a criterion gets one
 * item for each that the data (or an `enum`) names, `questions` gets as many items as the data's `count`, scores stay
 * within their `maxScore` and a score beside scored parts is their sum, an answer key is the first option.
 */
export function mockAnswer(task: Pick<ModelTask, 'kind' | 'data' | 'schema'>): unknown {
  const data = membersOf(task.data);
  const seed = createHash('sha256')
    .update(`${task.kind}\n${JSON.stringify(task.data) ?? 'null'}`)
    .digest('hex');
  const root = task.schema;

  /** [0, 1), settled by the data and the path alone: a field more elsewhere changes nothing here. */
  const chance = (path: string): number =>
    Number.parseInt(createHash('sha256').update(`${seed}${path}`).digest('hex').slice(0, 12), 16) / 2 ** 48;

  function sample(schema: Schema, spot: Spot): unknown {
    const node = followed(root, schema);
    if ('const' in node) return node.const;
    if (Array.isArray(node.enum)) return node.enum[Math.floor(chance(spot.path) * node.enum.length)];
    const branch = firstOf(node.anyOf) ?? firstOf(node.oneOf);
    if (branch !== undefined) return sample(branch, spot);
    switch (typeOf(node)) {
      case 'object':
        return object(node, spot);
      case 'array':
        return list(node, spot);
      case 'string':
        return text(node, spot);
      case 'integer':
      case 'number':
        return number(node, spot);
      case 'boolean':
        return chance(spot.path) < 0.5;
      default:
        return null;
    }
  }

  function object(node: Schema, spot: Spot): Fields {
    const made: Record<string, unknown> = {};
    // Options, then other arrays, then the rest: an answer key and a sum speak of what stands beside them.
    const rank = ([name, schema]: [string, unknown]) => (name === 'options' ? 0 : isArray(root, schema) ? 1 : 2);
    const properties = Object.entries(membersOf(node.properties)).sort((a, b) => rank(a) - rank(b));
    if (spot.path.split('/').length <= DEEPEST) {
      for (const [name, schema] of properties) {
        made[name] = sample(membersOf(schema), { path: `${spot.path}/${name}`, name, made, subject: spot.subject });
      }
    }
    return Object.fromEntries(Object.keys(membersOf(node.properties)).map((name) => [name, made[name]]));
  }

  function list(node: Schema, spot: Spot): unknown[] {
    const items = followed(root, membersOf(node.items));
    const [least, most] = [numberOr(node.minItems, 0), numberOr(node.maxItems, Number.POSITIVE_INFINITY)];
    const properties = membersOf(items.properties);
    const naming = NAMING_FIELDS.find((field) => field in properties);
    const subjects = naming === undefined ? [] : subjectsOf(followed(root, membersOf(properties[naming])), spot.name);
    const wanted =
      spot.name === 'questions' ? numberOr(data.count, 1) : spot.name === 'options' ? CHOICES : MOST_FREE_ITEMS;
    const length = Math.min(most, Math.max(least, subjects.length || wanted));
    const answers = Array.isArray(spot.made.options) && typeOf(items) === 'string' ? 1 : length;
    return Array.from({ length: Math.max(least, answers) }, (_, index) => {
      const path = `${spot.path}/${index}`;
      const item = sample(items, { path, name: spot.name, made: spot.made, subject: subjects[index] ?? spot.subject });
      const id = subjects[index]?.id;
      return naming !== undefined && id !== undefined ? { ...membersOf(item), [naming]: id } : item;
    });
  }

  /** What an array is to speak of, each with its `id`; none when the data names nothing for it. */
  function subjectsOf(idSchema: Schema, arrayName: string): Fields[] {
    const described = [...arraysNamed(data, arrayName), ...arraysNamed(data, 'questions')].find((rows) =>
      rows.every((row) => idOf(row) !== undefined),
    );
    const byId = new Map((described ?? []).map((row) => [idOf(row), membersOf(row)] as const));
    const ids = Array.isArray(idSchema.enum) ? idSchema.enum : described === undefined ? namedIds() : [...byId.keys()];
    if (arrayName === 'options' || (arrayName === 'questions' && data.count !== undefined)) return [];
    return ids.map((id) => ({ ...byId.get(id), id }));
  }

  function namedIds(): unknown[] {
    return Array.isArray(data.questionIds) ? data.questionIds : [];
  }

  function text(node: Schema, spot: Spot): string {
    const { name, path, made, subject } = spot;
    const [least, most] = [numberOr(node.minLength, 0), numberOr(node.maxLength, 2_000)];
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
    const fits = (candidate: string): boolean =>
      candidate.length >= least &&
      candidate.length <= most &&
      (typeof node.pattern !== 'string' || new RegExp(node.pattern, 'u').test(candidate));
    const fitting = [...candidates, mark, letter, String(index + 1)].find(fits);
    return fitting ?? (candidates.at(-1) ?? '').padEnd(least, '.').slice(0, most);
  }

  function number(node: Schema, { name, path, made, subject }: Spot): number {
    const total = name === 'score' ? sumOfScores(made) : undefined;
    if (total !== undefined) return total;
    const least = numberOr(node.minimum, numberOr(node.exclusiveMinimum, 0));
    const ceiling = name === 'confidence' ? 1 : 10;
    const most = numberOr(node.maximum, numberOr(node.exclusiveMaximum, Math.max(least, ceiling)));
    const highest = name === 'score' ? Math.min(most, numberOr(subject.maxScore, numberOr(data.maxScore, most))) : most;
    if (name === 'maxScore' && typeof subject.maxScore === 'number') return subject.maxScore;
    // Inside the range whatever its ends are, and with few digits: a half, a tenth, whole numbers where only they are allowed.
    const share = name === 'confidence' ? 0.5 + chance(path) / 2 : chance(path);
    const drawn = least + (highest - least) * share;
    // Quarters of points add up exactly.
    const steps = typeOf(node) === 'integer' ? 1 : name === 'score' ? 4 : 100;
    const span = (highest - least) * steps;
    // Full points are drawn too, or a criterion of a quarter would never give any.
    const scores = node.exclusiveMaximum === undefined ? Math.floor(span) + 1 : Math.ceil(span);
    const rounded = name === 'score' ? least + Math.floor(share * scores) / steps : Math.floor(drawn * steps) / steps;
    const low = node.exclusiveMinimum === undefined ? rounded >= least : rounded > least;
    return low ? rounded : typeOf(node) === 'integer' ? Math.ceil(drawn) : drawn;
  }

  return sample(root, { path: '', name: '', made: {}, subject: data });
}

function numberOr(value: unknown, otherwise: number): number {
  return typeof value === 'number' ? value : otherwise;
}

function firstOf(value: unknown): Schema | undefined {
  return Array.isArray(value) && value.length > 0 ? membersOf(value[0]) : undefined;
}

/** The schema that a local `$ref` (`#/$defs/x`) leads to. */
function followed(root: Schema, schema: Schema): Schema {
  const { $ref } = schema;
  if (typeof $ref !== 'string' || !$ref.startsWith('#/')) return schema;
  return $ref
    .slice(2)
    .split('/')
    .reduce<Schema>((node, step) => membersOf(node[step]), root);
}

function typeOf(node: Schema): unknown {
  const { type } = node;
  if (Array.isArray(type)) return type.find((name) => name !== 'null') ?? 'null';
  return type ?? ('properties' in node ? 'object' : 'items' in node ? 'array' : 'null');
}

function isArray(root: Schema, schema: unknown): boolean {
  return typeOf(followed(root, membersOf(schema))) === 'array';
}

function idOf(row: unknown): unknown {
  const { id, questionId } = membersOf(row);
  return id ?? questionId;
}

/** The non-empty arrays of objects that stand anywhere in the data under this name. */
function arraysNamed(value: unknown, name: string, depth = 0): unknown[][] {
  if (depth > DEEPEST || typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, member]) => [
    ...(key === name && Array.isArray(member) && typeof member[0] === 'object' ? [member] : []),
    ...arraysNamed(member, name, depth + 1),
  ]);
}

function firstOptionId(made: Fields, name: string): unknown {
  if (!/answer|correct|optionId/i.test(name) || !Array.isArray(made.options)) return undefined;
  return membersOf(made.options[0]).id;
}

/** The sum of the scored parts beside a score; undefined when there are none. */
function sumOfScores(made: Fields): number | undefined {
  const parts = Object.values(made).find(
    (value): value is Fields[] => Array.isArray(value) && value.length > 0 && 'score' in membersOf(value[0]),
  );
  return parts?.reduce((sum, part) => sum + numberOr(part.score, 0), 0);
}
