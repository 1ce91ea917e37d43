import type { Schema } from '#shared/classifier/lowering/schema.ts';
import { membersOf } from '#shared/kernel/json-object.ts';
import { numberOr, typeOf } from './schema-node.ts';
import type { Asked, Fields, Spot } from './spot.ts';

/** A score beside scored parts is their sum; every other number lies in its range, and has few digits. */
export function mockNumber(asked: Asked, node: Schema, spot: Spot): number {
  const { name, path, made, subject } = spot;
  const total = name === 'score' ? sumOfScores(made) : undefined;
  if (total !== undefined) return total;
  if (name === 'maxScore' && typeof subject.maxScore === 'number') return subject.maxScore;

  const { least, most } = rangeOf(asked, node, spot);
  // A confidence is never a low one.
  const share = name === 'confidence' ? 0.5 + asked.chance(path) / 2 : asked.chance(path);
  const drawn = least + (most - least) * share;
  const isWhole = typeOf(node) === 'integer';
  const rounded = name === 'score' ? scoreAt(share, node, { least, most }) : roundedDown(drawn, isWhole ? 1 : 100);
  // Inside the range whatever its ends are.
  const isIn = node.exclusiveMinimum === undefined ? rounded >= least : rounded > least;
  return isIn ? rounded : isWhole ? Math.ceil(drawn) : drawn;
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

/** One of the scores of the range, each as likely: full points are drawn too, or a criterion of a quarter would never give any. */
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

/** The sum of the scored parts beside a score; undefined when there are none. */
function sumOfScores(made: Fields): number | undefined {
  const parts = Object.values(made).find(
    (value): value is Fields[] => Array.isArray(value) && value.length > 0 && 'score' in membersOf(value[0]),
  );
  return parts?.reduce((sum, part) => sum + numberOr(part.score, 0), 0);
}
