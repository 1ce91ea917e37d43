import type { Collection } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { Stamped } from '#infra/mongo/guarded-update.ts';

/** The server for which a probe found that every behaviour holds; see `probe/probe.ts`. */
export interface PassedProbe {
  build: string;
  /** Names of the behaviours. */
  behaviours: string[];
}

/** The one document that says where the data's shape stands, and who is changing it. */
export interface SchemaState extends Stamped {
  _id: 'schema';
  version: number;
  compatibleFrom: number;
  runner: string | null;
  lockedUntil: Date | null;
  /** Absent before the first release that probes. */
  passed?: PassedProbe;
}

export const schemaState = (mongo: Mongo): Collection<SchemaState> => mongo.db.collection('schema_state');
