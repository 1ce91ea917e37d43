import { type Document, MongoServerError } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import { liveWorkers } from '#infra/mongo/live-workers.ts';
import { isRouter } from '#infra/mongo/probe/server.ts';
import { schemaState } from '#infra/mongo/schema-state.ts';
import { indexesOf, schemaFaults } from './migrate.ts';
import type { CollectionName } from './personal-fields.ts';
import { PLACEMENTS, refusesUnique } from './shard-keys.ts';

/** One collection that is on the shards, or is to be, by the key of `shard-keys.ts`. */
export interface DistributionStep {
  collection: CollectionName;
  /** The key as `shardCollection` takes it. */
  key: Readonly<Record<string, 'hashed'>>;
  /** `other`: it is sharded by another key. */
  state: 'whole' | 'sharded' | 'other';
  /** Names of unique indexes that no release has declared. MongoDB refuses the key as long as they exist. */
  foreign: string[];
  /** Documents by the collection's own count, which is exact unless a server crashed. */
  documents: number;
}

/** The move of the collections onto shards, as far as it has come. The operator carries it out, and reads it again afterwards. */
export interface Distribution {
  steps: DistributionStep[];
  /** Reasons why nothing may be moved now. */
  faults: string[];
  /** The rest of the move as lines for `mongosh`, in their order; none with a fault. */
  lines: string[];
}

/**
 * Returns how far the move has come and what is left, in the order of the declaration. Reads only.
 *
 * @param now the time of MongoDB, in Unix milliseconds
 */
export async function readDistribution(mongo: Mongo, now: number): Promise<Distribution> {
  const { databaseName } = mongo.db;
  const router = await isRouter(mongo);
  const steps: DistributionStep[] = [];
  const faults = router ? await schemaFaults(mongo) : ['this server is no router (mongos) of a sharded cluster'];
  for (const [name, placement] of Object.entries(PLACEMENTS)) {
    if (!('shardKey' in placement)) continue;
    const collection = name as CollectionName;
    const key = Object.fromEntries(placement.shardKey.map((field) => [field, 'hashed' as const]));
    const foreign = (await indexesOf(mongo, collection))
      .filter((index) => index.unique === true && refusesUnique(Object.keys(index.key), placement))
      .map((index) => String(index.name));
    if (foreign.length > 0) faults.push(`${collection} has unique indexes of others: ${foreign.join(', ')}`);
    // Only a router has the list, and a user of a replica set may lack the right to read it.
    const state = router ? await stateOf(mongo, collection, key) : 'whole';
    if (state === 'unreadable') return { steps: [], faults: [NO_RIGHT], lines: [] };
    if (state === 'other') faults.push(`${collection} is sharded by another key; see reshardCollection`);
    const documents = await mongo.db.collection(collection).estimatedDocumentCount();
    steps.push({ collection, key, state, foreign, documents });
  }
  faults.push(...(await outsiders(mongo, now)));
  const isMarked = (await schemaState(mongo).findOne({ _id: 'schema' }))?.sharded === true;
  const lines = [
    ...(isMarked ? [] : [MARK(databaseName)]),
    ...steps.flatMap((step) => (step.state === 'sharded' ? [] : linesOf(databaseName, step))),
  ];
  return { steps, faults, lines: faults.length === 0 ? lines : [] };
}

const NO_RIGHT = 'the user of MongoDB lacks rights: find on config.collections, as clusterManager has';

const rowsOf = (database: string, collection: string) =>
  `db.getSiblingDB(${JSON.stringify(database)}).getCollection(${JSON.stringify(collection)})`;

/** The line that comes first: from then on, no process past the routers starts. */
const MARK = (database: string) =>
  `${rowsOf(database, 'schema_state')}.updateOne({"_id":"schema"}, {"$set":{"sharded":true}})`;

/** MongoDB creates the index of the key by itself for an empty collection only, under the same name. */
function linesOf(database: string, { collection, key }: DistributionStep): string[] {
  return [
    `${rowsOf(database, collection)}.createIndex(${JSON.stringify(key)})`,
    `sh.shardCollection(${JSON.stringify(`${database}.${collection}`)}, ${JSON.stringify(key)})`,
  ];
}

/** Returns a fault for live workers that connect to a shard itself: they would write rows that no router finds. */
async function outsiders(mongo: Mongo, now: number): Promise<string[]> {
  const named = (await liveWorkers(mongo, now))
    .filter(({ router }) => router === false)
    .map(({ actor, host, pid, version }) => `${actor} ${version} on ${host} (${pid})`);
  return named.length === 0 ? [] : [`processes connect to a shard instead of a router: ${named.join(', ')}`];
}

const UNAUTHORIZED = 13;

async function stateOf(
  mongo: Mongo,
  collection: string,
  key: Document,
): Promise<DistributionStep['state'] | 'unreadable'> {
  const filter = { _id: `${mongo.db.databaseName}.${collection}` };
  const list = mongo.client.db('config').command({ find: 'collections', filter, limit: 1 });
  const reply = await list.catch((error: unknown) => {
    if (error instanceof MongoServerError && error.code === UNAUTHORIZED) return null;
    throw error;
  });
  if (reply === null) return 'unreadable';
  const [entry] = reply.cursor.firstBatch;
  // MongoDB 8 also lists collections that were moved whole.
  if (entry === undefined || entry.unsplittable === true) return 'whole';
  return JSON.stringify(entry.key) === JSON.stringify(key) ? 'sharded' : 'other';
}
