import { MongoServerError } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import { INDEXES, MADE_BEFOREHAND } from './indexes.ts';

const NAMESPACE_EXISTS = 48;

/**
 * One step of the data's shape. Steps only expand: what an older process writes and reads must stay right until
 * every process is new; a later step contracts. `compatibleFrom` is the oldest schema version whose processes still
 * work beside this one.
 */
export interface Migration {
  version: number;
  name: string;
  compatibleFrom: number;
  /** What it does beside its indexes, which stand when it begins. */
  up?(mongo: Mongo): Promise<void>;
}

export const MIGRATIONS: readonly Migration[] = [
  { version: 1, name: 'attempt service, auth service and mailboxes', compatibleFrom: 1 },
  { version: 2, name: 'notification service', compatibleFrom: 1 },
  { version: 3, name: 'AI classifier', compatibleFrom: 1 },
];

/** The schema version that this code needs. */
export const SCHEMA_VERSION = MIGRATIONS.at(-1)?.version ?? 0;

/** Creates what is declared and missing. An index of the same name with other keys is an error, never dropped here. */
export async function createIndexes(mongo: Mongo, declared = INDEXES): Promise<void> {
  for (const name of MADE_BEFOREHAND) await createCollection(mongo, name);
  // One by one: all of a large collection's at once may take longer than a reply is waited for.
  for (const { collection, name, keys, options } of declared) {
    await mongo.db.collection(collection).createIndex(keys, { ...options, name });
  }
}

async function createCollection(mongo: Mongo, name: string): Promise<void> {
  try {
    await mongo.db.createCollection(name);
  } catch (error) {
    if (!(error instanceof MongoServerError && error.code === NAMESPACE_EXISTS)) throw error;
  }
}
