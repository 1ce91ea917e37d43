import type { Collection } from 'mongodb';
import type { Mongo } from './connect.ts';
import type { Stamped } from './guarded-update.ts';

/** A server on which a probe found every behaviour; see `probe/probe.ts`. */
export interface PassedProbe {
  build: string;
  /** Names of the behaviours that were tested. */
  behaviours: string[];
}

/** The only document of its collection: the version of the schema, and the process that changes it now. */
export interface SchemaState extends Stamped {
  _id: 'schema';
  version: number;
  compatibleFrom: number;
  runner: string | null;
  lockedUntil: Date | null;
  /** Absent if no migration has probed the server. */
  passed?: PassedProbe;
  /** Collections are on shards. A process that connects to one of the shards would write rows that no router finds. */
  sharded?: true;
}

export const schemaState = (mongo: Mongo): Collection<SchemaState> => mongo.db.collection('schema_state');
