import type { Collection, Filter, OptionalUnlessRequiredId, WithId } from 'mongodb';
import { QUERY_LIMIT_MS } from './connect.ts';
import { isDuplicateKey } from './faults.ts';
import type { GuardedUpdate } from './guarded-update.ts';

/** Passes after which `updateRow` throws. Each further pass means that the row was deleted between our insert and our update. */
const MAX_PASSES = 50;

/**
 * Applies a guarded update to the row with the `_id` of `empty`. If the row is missing, inserts `empty` first. Returns the row as it
 * is afterwards; `wasAccepted` shows if the conditions held.
 *
 * It is no upsert: concurrent upserts of one row may fail with a duplicate key and would have to be repeated. An insert that loses
 * the race changes nothing, and the update after it is applied once for each caller.
 */
export async function updateRow<Row extends { _id: string }>(
  rows: Collection<Row>,
  empty: Row,
  update: GuardedUpdate,
): Promise<WithId<Row>> {
  const filter = { _id: empty._id } as Filter<Row>;
  for (let pass = 0; pass < MAX_PASSES; pass++) {
    const row = await rows.findOneAndUpdate(filter, update.pipeline, {
      returnDocument: 'after',
      maxTimeMS: QUERY_LIMIT_MS,
    });
    if (row !== null) return row;
    await insertRow(rows, empty);
  }
  throw new Error(`a row of ${rows.collectionName} was deleted repeatedly during one update`);
}

/** Inserts a row. Returns false, and changes nothing, if the row exists already. The collection must have no other unique key. */
export async function insertRow<Row extends { _id: string }>(rows: Collection<Row>, row: Row): Promise<boolean> {
  try {
    await rows.insertOne(row as OptionalUnlessRequiredId<Row>, { maxTimeMS: QUERY_LIMIT_MS });
    return true;
  } catch (error) {
    if (isDuplicateKey(error)) return false;
    throw error;
  }
}
