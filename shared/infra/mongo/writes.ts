import type { AnyBulkWriteOperation, ClientSession, Document } from 'mongodb';
import type { Mongo } from './connect.ts';
import { isDuplicateKey } from './faults.ts';
import { Stale } from './guarded-update.ts';
import { repeatable } from './transaction.ts';

type Row = Document & { _id: string };

/**
 * Changes that a decision makes in one collection, as data: several decisions can be stored by one command. `matched` is the number of
 * documents that its updates must find. If they find fewer, the decision was made on a document that has changed.
 */
export interface Writes {
  readonly collection: string;
  readonly models: readonly AnyBulkWriteOperation<Row>[];
  readonly matched: number;
}

/** Makes the changes in the caller's transaction, by one command for each collection. @throws Stale if a document has changed */
export async function applyWrites(mongo: Mongo, writes: readonly Writes[], session: ClientSession): Promise<void> {
  for (const [collection, parts] of Map.groupBy(writes, (one) => one.collection)) {
    const models = parts.flatMap((part) => part.models);
    if (models.length === 0) continue;
    const written = await mongo.db
      .collection(collection)
      // A router would send ordered ones to their shards one after the other.
      .bulkWrite(models as AnyBulkWriteOperation<Document>[], { session, ordered: false })
      .catch((error: unknown) => {
        // An upsert whose row was stored after the snapshot of this transaction: its repetition sees the row.
        throw isDuplicateKey(error) && models.some(isUpsert) ? repeatable(error) : error;
      });
    const matched = parts.reduce((sum, part) => sum + part.matched, 0);
    if (written.matchedCount < matched) throw new Stale(`documents of ${collection}`);
  }
}

function isUpsert(model: AnyBulkWriteOperation<Row>): boolean {
  return 'updateOne' in model && model.updateOne.upsert === true;
}

/** Returns the insert of these documents. */
export function inserts(collection: string, documents: readonly { _id: string }[]): Writes {
  return { collection, models: documents.map((document) => ({ insertOne: { document } })), matched: 0 };
}
