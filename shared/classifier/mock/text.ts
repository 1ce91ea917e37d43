import type { Schema } from '#shared/classifier/lowering/schema.ts';
import { membersOf } from '#shared/kernel/json-object.ts';
import { numberOr } from './schema-node.ts';
import type { Asked, Fields, Spot } from './spot.ts';

const LONGEST = 2_000;

/** What the data says of such a field, else a name for it; the first of them that the schema admits. */
export function mockText({ data, chance }: Asked, node: Schema, { name, path, made, subject }: Spot): string {
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

/** An answer key is the first of the options that stand beside it. */
function firstOptionId(made: Fields, name: string): unknown {
  if (!/answer|correct|optionId/i.test(name) || !Array.isArray(made.options)) return undefined;
  return membersOf(made.options[0]).id;
}

function lengthsOf({ minLength, maxLength }: Schema): { least: number; most: number } {
  return { least: numberOr(minLength, 0), most: numberOr(maxLength, LONGEST) };
}

function fits(node: Schema, text: string): boolean {
  const { least, most } = lengthsOf(node);
  if (text.length < least || text.length > most) return false;
  return typeof node.pattern !== 'string' || new RegExp(node.pattern, 'u').test(text);
}

function cutToLength(node: Schema, text: string): string {
  const { least, most } = lengthsOf(node);
  return text.padEnd(least, '.').slice(0, most);
}
