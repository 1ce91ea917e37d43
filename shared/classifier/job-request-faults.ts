import type { FaultDetail } from '#shared/kernel/errors.ts';
import { membersOf } from '#shared/kernel/json-object.ts';
import { repeatedAt } from './repeated-at.ts';

/** What the schema cannot say: each question and each field stands once. Takes a body of any shape. */
export function jobRequestFaults(body: unknown): FaultDetail[] {
  return [...repeats(body, 'questionIds'), ...repeats(body, 'fields')];
}

function repeats(body: unknown, name: string): FaultDetail[] {
  const list = membersOf(body)[name];
  if (!Array.isArray(list)) return [];
  return repeatedAt(list).map((at) => ({ path: `/${name}/${at}`, message: 'is there already' }));
}
