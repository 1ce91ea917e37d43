import type { Schema } from '#shared/classifier/lowering/schema.ts';
import { membersOf } from '#shared/kernel/json-object.ts';
import { DEEPEST, type Fields } from './spot.ts';

/**
 * What an array of the answer is to speak of, each with its `id`: the ids that `idSchema` allows, else those of the data's rows of
 * the same name, else of its questions. None when the data names nothing for it, and for what is made anew.
 */
export function subjectsOf(data: Fields, idSchema: Schema, arrayName: string): Fields[] {
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

/** The non-empty arrays of objects that stand anywhere in the data under this name. */
function arraysNamed(value: unknown, name: string, depth = 0): unknown[][] {
  if (depth > DEEPEST || typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, member]) => [
    ...(key === name && Array.isArray(member) && typeof member[0] === 'object' ? [member] : []),
    ...arraysNamed(member, name, depth + 1),
  ]);
}
