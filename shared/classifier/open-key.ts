import { createHash } from 'node:crypto';
import type { ClassifyField, ClassifyMode } from './classification.ts';

/** What makes two requests for a job equal. */
export interface JobWish {
  actorId: string;
  organizationId: string;
  filters: Readonly<Record<string, unknown>>;
  questionIds: readonly string[];
  fields: readonly ClassifyField[];
  mode: ClassifyMode;
  overwrite: boolean;
  threshold: number;
}

/** Equal for equal wishes, whatever the order of their ids, their fields and the keys of their filters: hex of SHA-256. */
export function openKeyOf(wish: JobWish): string {
  const { actorId, organizationId, filters, questionIds, fields, mode, overwrite, threshold } = wish;
  const parts = [actorId, organizationId, filters, sorted(questionIds), sorted(fields), mode, overwrite, threshold];
  return createHash('sha256')
    .update(JSON.stringify(parts.map(inOrder)))
    .digest('hex');
}

function sorted(values: readonly string[]): string[] {
  return [...values].sort();
}

/** Objects as lists of pairs, by key: an object of our own could not hold a key named `__proto__`, and would put numbers first. */
function inOrder(value: unknown): unknown {
  if (Array.isArray(value)) return { list: value.map(inOrder) };
  if (typeof value !== 'object' || value === null) return value;
  const pairs = Object.entries(value).map(([key, held]): [string, unknown] => [key, inOrder(held)]);
  return pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
}
