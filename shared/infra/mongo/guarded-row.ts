import type { Collection, Filter, OptionalUnlessRequiredId, UpdateFilter, WithId } from 'mongodb';
import { QUERY_LIMIT_MS } from './connect.ts';
import { isDuplicateKey } from './faults.ts';
import type { GuardedUpdate } from './guarded-update.ts';

/** Passes after which a change throws. Each further pass means that the row was inserted and deleted by others, or deleted after our insert. */
const MAX_PASSES = 50;
const BOUND = { maxTimeMS: QUERY_LIMIT_MS };

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
  return untilChanged(rows, async () => {
    const row = await rows.findOneAndUpdate(filter, update.pipeline, { ...BOUND, returnDocument: 'after' });
    if (row === null) await insertRow(rows, empty);
    return row;
  });
}

/** Stores all fields of a row: sets them in the row with its `_id`, or inserts it. Of concurrent calls one is the last. It is no upsert either. */
export async function putRow<Row extends { _id: string }>(rows: Collection<Row>, row: Row): Promise<void> {
  const { _id, ...fields } = row;
  const change = { $set: fields } as unknown as UpdateFilter<Row>;
  await untilChanged(rows, async () => {
    const { matchedCount } = await rows.updateOne({ _id } as Filter<Row>, change, BOUND);
    return matchedCount === 1 || (await insertRow(rows, row)) ? row : null;
  });
}

/** Repeats a pass until it finds its row. */
async function untilChanged<Row extends { _id: string }, Found>(
  rows: Collection<Row>,
  pass: () => Promise<Found | null>,
): Promise<Found> {
  for (let passes = 0; passes < MAX_PASSES; passes++) {
    const found = await pass();
    if (found !== null) return found;
  }
  throw new Error(`a row of ${rows.collectionName} was deleted repeatedly during one change`);
}

/** Inserts a row. Returns false, and changes nothing, if the row exists already. The collection must have no other unique key. */
export async function insertRow<Row extends { _id: string }>(rows: Collection<Row>, row: Row): Promise<boolean> {
  try {
    await rows.insertOne(row as OptionalUnlessRequiredId<Row>, BOUND);
    return true;
  } catch (error) {
    if (isDuplicateKey(error)) return false;
    throw error;
  }
}
