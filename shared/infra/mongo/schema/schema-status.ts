import type { Mongo } from '#infra/mongo/connect.ts';
import { schemaState } from '#infra/mongo/schema-state.ts';
import { INDEXES } from './indexes.ts';
import { indexesOf, MIGRATIONS, SCHEMA_VERSION, schemaFaults } from './migrate.ts';

/** The schema of a database, compared with what this code needs. */
export interface SchemaStatus {
  /** Version of the database; 0 before the first migration. */
  version: number;
  /** Version that this code needs. */
  needed: number;
  /** Oldest schema version whose processes still work with this database. */
  compatibleFrom: number;
  /** Steps that a migration would take. */
  pending: { version: number; name: string }[];
  /** Declared indexes that a migration would create, as `collection.name`. */
  missingIndexes: string[];
  /** Reasons why no process of this code starts on this database. */
  faults: string[];
  /** A migration holds the lease now. */
  running: boolean;
}

/** Reads the state of the schema and changes nothing. `now` is MongoDB's time in Unix milliseconds. */
export async function schemaStatus(mongo: Mongo, now: number): Promise<SchemaStatus> {
  const state = await schemaState(mongo).findOne({ _id: 'schema' });
  const version = state?.version ?? 0;
  return {
    version,
    needed: SCHEMA_VERSION,
    compatibleFrom: state?.compatibleFrom ?? 0,
    pending: MIGRATIONS.filter((step) => step.version > version).map((step) => ({
      version: step.version,
      name: step.name,
    })),
    missingIndexes: await missingIndexes(mongo),
    faults: await schemaFaults(mongo),
    running: (state?.lockedUntil?.getTime() ?? 0) > now,
  };
}

async function missingIndexes(mongo: Mongo): Promise<string[]> {
  const missing: string[] = [];
  for (const [collection, declared] of Map.groupBy(INDEXES, (index) => index.collection)) {
    const present = new Set((await indexesOf(mongo, collection)).map(({ name }) => name));
    for (const { name } of declared) if (!present.has(name)) missing.push(`${collection}.${name}`);
  }
  return missing;
}
