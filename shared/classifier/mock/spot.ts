import type { Schema } from '#shared/classifier/lowering/schema.ts';

/** Levels below which neither an answer nor the data is followed: a schema may refer to itself. */
export const DEEPEST = 12;

export type Fields = Readonly<Record<string, unknown>>;

/** What is answered: the schema of a task and its data. */
export interface Asked {
  root: Schema;
  data: Fields;
  /** [0, 1), settled by the data and the path alone: a field more elsewhere changes nothing here. */
  chance(path: string): number;
}

/** Where the sampler stands: the path to here, the object being made so far, and the part of the data that it speaks of. */
export interface Spot {
  path: string;
  name: string;
  made: Fields;
  subject: Fields;
}
