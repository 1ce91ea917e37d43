import type { Schema } from '#shared/classifier/lowering/schema.ts';
import { membersOf } from '#shared/kernel/json-object.ts';
import { mockNumber } from './number.ts';
import { firstOf, followed, numberOr, typeOf } from './schema-node.ts';
import { type Asked, DEEPEST, type Fields, type Spot } from './spot.ts';
import { subjectsOf } from './subjects.ts';
import { mockText } from './text.ts';

/** Fields by which an answer names what it speaks of, in the order in which they are looked for. */
const NAMING_FIELDS = ['questionId', 'criterionId', 'id'];
const CHOICES = 4;
const MOST_FREE_ITEMS = 2;

/** A value that the schema admits at this spot. */
export function sample(asked: Asked, schema: Schema, spot: Spot): unknown {
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

/** Options, then other arrays, then the rest: an answer key and a sum speak of what stands beside them. */
function inOrderOfMaking(root: Schema, properties: [string, unknown][]): [string, unknown][] {
  const rank = ([name, schema]: [string, unknown]) => {
    if (name === 'options') return 0;
    return typeOf(followed(root, membersOf(schema))) === 'array' ? 1 : 2;
  };
  return properties.toSorted((a, b) => rank(a) - rank(b));
}

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

/** How many items a list gets that speaks of nothing in the data. */
function freeLength({ data }: Asked, name: string): number {
  if (name === 'questions') return numberOr(data.count, 1);
  return name === 'options' ? CHOICES : MOST_FREE_ITEMS;
}
