import type { Document } from 'mongodb';
import { ATTEMPTS } from '#infra/mongo/attempt/collections.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { indexesOf, schemaFaults } from './migrate.ts';
import type { CollectionName } from './personal-fields.ts';
import { schemaState } from './schema-state.ts';
import { PLACEMENTS, refusesUnique } from './shard-keys.ts';

/** Distributes the collections over the shards of a cluster, by the keys of `shard-keys.ts`. */

/** The work on one collection. */
export interface DistributionStep {
  collection: CollectionName;
  /** The key as `shardCollection` takes it. */
  key: Readonly<Record<string, 'hashed'>>;
  /** `other`: it is sharded by another key. */
  state: 'whole' | 'sharded' | 'other';
  /** Names of unique indexes of earlier versions. MongoDB refuses the key as long as they exist. */
  drops: string[];
  /** Names of other unique indexes that MongoDB refuses. This version does not know what depends on them. */
  foreign: string[];
  /** Documents by the collection's own count, which is exact unless a server crashed. */
  documents: number;
}

/** Thrown if the server cannot distribute collections, or if one is distributed by another key. Nothing is changed. */
export class NotDistributable extends Error {
  override name = 'NotDistributable';
}

/** Unique indexes of attempts that schema version 4 needs. Version 5 has others, which begin with the student. */
const FORMER: readonly string[] = ['start_key', 'open_attempt', 'attempt_number'];
/** The oldest schema version whose processes need none of the dropped indexes. */
const COMPATIBLE_FROM = 5;
const NO_SUCH_INDEX = 27;

/** Returns what each sharded collection needs, in the order of the declaration. Reads only. */
export async function planDistribution(mongo: Mongo): Promise<DistributionStep[]> {
  const steps: DistributionStep[] = [];
  const router = await isRouter(mongo);
  for (const [name, placement] of Object.entries(PLACEMENTS)) {
    if (!('shardKey' in placement)) continue;
    const collection = name as CollectionName;
    const key = Object.fromEntries(placement.shardKey.map((field) => [field, 'hashed' as const]));
    const refused = (await indexesOf(mongo, collection))
      .filter((index) => index.unique === true && refusesUnique(Object.keys(index.key), placement))
      .map((index) => String(index.name));
    const isFormer = (index: string) => collection === ATTEMPTS && FORMER.includes(index);
    steps.push({
      collection,
      key,
      // Only a router has this list, and a user of a replica set may lack the right to read it.
      state: router ? await stateOf(mongo, collection, key) : 'whole',
      drops: refused.filter(isFormer),
      foreign: refused.filter((index) => !isFormer(index)),
      documents: await mongo.db.collection(collection).estimatedDocumentCount(),
    });
  }
  return steps;
}

/**
 * Carries the steps out, one collection after the other. May be repeated: finished collections are left alone. An empty collection is
 * split over the present shards at once. The balancer moves the rows of another one.
 *
 * @throws NotDistributable before the first change
 */
export async function distribute(
  mongo: Mongo,
  steps: readonly DistributionStep[],
  report: (line: string) => void,
): Promise<void> {
  if (!(await isRouter(mongo))) throw new NotDistributable('the server is not a router (mongos) of a sharded cluster');
  // The dropped indexes are replaced by those of the present schema, which must exist.
  const [fault] = await schemaFaults(mongo);
  if (fault !== undefined) throw new NotDistributable(fault);
  for (const { collection, state, foreign } of steps) {
    if (foreign.length > 0)
      throw new NotDistributable(`${collection} has unique indexes of others: ${foreign.join(', ')}`);
    if (state === 'other') throw new NotDistributable(`${collection} is sharded by another key; see reshardCollection`);
  }
  // Processes of earlier versions check for the indexes that are dropped here, so they must no longer start.
  const older = { _id: 'schema', compatibleFrom: { $lt: COMPATIBLE_FROM } } as const;
  await schemaState(mongo).updateOne(older, { $set: { compatibleFrom: COMPATIBLE_FROM } });
  for (const { collection, key, state, drops } of steps) {
    if (state === 'sharded') continue;
    for (const name of drops) await dropIndex(mongo, collection, name);
    // MongoDB creates this index by itself for an empty collection only, under the same name. Rows may have come since the plan.
    await mongo.db.collection(collection).createIndex(key);
    await mongo.client.db('admin').command({ shardCollection: `${mongo.db.databaseName}.${collection}`, key });
    report(`${collection}: sharded by ${Object.keys(key).join(', ')}`);
  }
}

/** Drops an index. Another run may have dropped it. */
async function dropIndex(mongo: Mongo, collection: string, name: string): Promise<void> {
  await mongo.db
    .collection(collection)
    .dropIndex(name)
    .catch((error: { code?: unknown }) => {
      if (error.code !== NO_SUCH_INDEX) throw error;
    });
}

/** Returns whether the client talks to a router of a sharded cluster. */
export async function isRouter(mongo: Mongo): Promise<boolean> {
  const hello = await mongo.client.db('admin').command({ hello: 1 });
  return hello.msg === 'isdbgrid';
}

async function stateOf(mongo: Mongo, collection: string, key: Document): Promise<DistributionStep['state']> {
  const filter = { _id: `${mongo.db.databaseName}.${collection}` };
  const reply = await mongo.client.db('config').command({ find: 'collections', filter, limit: 1 });
  const [entry] = reply.cursor.firstBatch;
  // MongoDB 8 also lists collections that were moved whole.
  if (entry === undefined || entry.unsplittable === true) return 'whole';
  return JSON.stringify(entry.key) === JSON.stringify(key) ? 'sharded' : 'other';
}
