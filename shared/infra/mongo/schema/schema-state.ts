import type { Collection } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { Stamped } from '#infra/mongo/guarded-update.ts';

/** The one document that says where the data's shape stands, and who is changing it. */
export interface SchemaState extends Stamped {
  _id: 'schema';
  version: number;
  compatibleFrom: number;
  runner: string | null;
  lockedUntil: Date | null;
}

export const schemaState = (mongo: Mongo): Collection<SchemaState> => mongo.db.collection('schema_state');
