import type { Collection } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';

/** The one document that says where the data's shape stands, and who is changing it. */
export interface SchemaState {
  _id: 'schema';
  version: number;
  compatibleFrom: number;
  runner: string | null;
  lockedUntil: Date | null;
  stamp?: string;
}

export const schemaState = (mongo: Mongo): Collection<SchemaState> => mongo.db.collection('schema_state');
