import { type Document, MongoServerError } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import { liveWorkers } from '#infra/mongo/live-workers.ts';
import { isRouter } from '#infra/mongo/probe/server.ts';
import { schemaState } from '#infra/mongo/schema-state.ts';
import { indexesOf, schemaFaults, underMigrationLease } from './migrate.ts';
import type { CollectionName } from './personal-fields.ts';
import { PLACEMENTS, refusesUnique } from './shard-keys.ts';

/** Distributes the collections over the shards of a cluster, by the keys of `shard-keys.ts`. */

/** The work on one collection. */
export interface DistributionStep {
  collection: CollectionName;
  /** The key as `shardCollection` takes it. */
  key: Readonly<Record<string, 'hashed'>>;
  /** `other`: it is sharded by another key. */
  state: 'whole' | 'sharded' | 'other';
  /** Names of unique indexes that no release has declared. MongoDB refuses the key as long as they exist. */
  foreign: string[];
  /** The work as lines for `mongosh`, in their order; none if the collection is finished or refused. */
  commands: string[];
  /** Documents by the collection's own count, which is exact unless a server crashed. */
  documents: number;
}

/** Thrown if the server cannot distribute collections, or if one is distributed by another key. Nothing is changed. */
export class NotDistributable extends Error {
  override name = 'NotDistributable';
}

const UNAUTHORIZED = 13;

/**
 * Returns what each sharded collection needs, in the order of the declaration. Reads only.
 * @throws NotDistributable if the user may not read the router's list of sharded collections
 */
export async function planDistribution(mongo: Mongo): Promise<DistributionStep[]> {
  const steps: DistributionStep[] = [];
  const router = await isRouter(mongo);
  for (const [name, placement] of Object.entries(PLACEMENTS)) {
    if (!('shardKey' in placement)) continue;
    const collection = name as CollectionName;
    const key = Object.fromEntries(placement.shardKey.map((field) => [field, 'hashed' as const]));
    const foreign = (await indexesOf(mongo, collection))
      .filter((index) => index.unique === true && refusesUnique(Object.keys(index.key), placement))
      .map((index) => String(index.name));
    // Only a router has this list, and a user of a replica set may lack the right to read it.
    const state = router ? await stateOf(mongo, collection, key) : 'whole';
    const isOpen = state === 'whole' && foreign.length === 0;
    steps.push({
      collection,
      key,
      state,
      foreign,
      commands: isOpen ? linesOf(mongo.db.databaseName, { collection, key }) : [],
      documents: await mongo.db.collection(collection).estimatedDocumentCount(),
    });
  }
  return steps;
}

/** Returns what `distribute` sends for one collection, for `mongosh`. */
function linesOf(database: string, { collection, key }: Pick<DistributionStep, 'collection' | 'key'>): string[] {
  const rows = `db.getSiblingDB(${JSON.stringify(database)}).getCollection(${JSON.stringify(collection)})`;
  return [
    `${rows}.createIndex(${JSON.stringify(key)})`,
    `sh.shardCollection(${JSON.stringify(`${database}.${collection}`)}, ${JSON.stringify(key)})`,
  ];
}

/**
 * Distributes the collections under the lease of migrations, one after the other. May be repeated: finished collections are left alone. An
 * empty collection is split over the present shards at once. The balancer moves the rows of another one.
 *
 * @param now the time of MongoDB, in Unix milliseconds
 * @throws NotDistributable before the first change
 */
export async function distribute(
  mongo: Mongo,
  { now, report }: { now: number; report: (line: string) => void },
): Promise<void> {
  if (!(await isRouter(mongo))) throw new NotDistributable('the server is not a router (mongos) of a sharded cluster');
  await underMigrationLease(mongo, report, async ({ runner, hold }) => {
    const steps = await planDistribution(mongo);
    const [fault] = [...(await schemaFaults(mongo)), ...faultsOf(steps), ...(await outsiders(mongo, now))];
    if (fault !== undefined) throw new NotDistributable(fault);
    const missing = await missingRights(mongo, steps);
    if (missing.length > 0) throw new NotDistributable(`the user of MongoDB lacks rights: ${missing.join(', ')}`);
    // No process past the routers may start from now on.
    await schemaState(mongo).updateOne({ _id: 'schema', runner }, { $set: { sharded: true } });
    for (const { collection, key, state } of steps) {
      if (state === 'sharded') continue;
      await hold();
      // MongoDB creates this index by itself for an empty collection only, under the same name. Rows may have come since the plan.
      await mongo.db.collection(collection).createIndex(key);
      await mongo.client.db('admin').command({ shardCollection: `${mongo.db.databaseName}.${collection}`, key });
      report(`${collection}: sharded by ${Object.keys(key).join(', ')}`);
    }
  });
}

function faultsOf(steps: readonly DistributionStep[]): string[] {
  return steps.flatMap(({ collection, state, foreign }) => [
    ...(foreign.length > 0 ? [`${collection} has unique indexes of others: ${foreign.join(', ')}`] : []),
    ...(state === 'other' ? [`${collection} is sharded by another key; see reshardCollection`] : []),
  ]);
}

/** Returns a fault for live workers that connect to a shard itself: they would write rows that no router finds. */
async function outsiders(mongo: Mongo, now: number): Promise<string[]> {
  const named = (await liveWorkers(mongo, now))
    .filter(({ router }) => router === false)
    .map(({ actor, host, pid, version }) => `${actor} ${version} on ${host} (${pid})`);
  return named.length === 0 ? [] : [`processes connect to a shard instead of a router: ${named.join(', ')}`];
}

/** Actions that the move takes on each collection, as MongoDB names them. */
const ACTIONS = ['enableSharding', 'createIndex'] as const;

/** A privilege of the connected user, as `connectionStatus` reports it. */
interface Privilege {
  resource: { db?: string; collection?: string; anyResource?: boolean };
  actions: readonly string[];
}

/** Returns the actions that the connected user may not take, with one collection each. Without access control there is no user. */
async function missingRights(mongo: Mongo, steps: readonly DistributionStep[]): Promise<string[]> {
  const { authInfo } = await mongo.client.db('admin').command({ connectionStatus: 1, showPrivileges: true });
  if (authInfo.authenticatedUsers.length === 0) return [];
  const privileges: Privilege[] = authInfo.authenticatedUserPrivileges;
  const { databaseName } = mongo.db;
  const mayDo = (action: string, wanted: string) =>
    privileges.some(({ resource: { db, collection, anyResource }, actions }) => {
      // An empty name means any of them.
      const isMeant = ['', databaseName].includes(db ?? '?') && ['', wanted].includes(collection ?? '?');
      return (anyResource === true || isMeant) && actions.includes(action);
    });
  return ACTIONS.flatMap((action) => {
    const refused = steps.find(({ collection, state }) => state !== 'sharded' && !mayDo(action, collection));
    return refused === undefined ? [] : [`${action} on ${refused.collection}`];
  });
}

async function stateOf(mongo: Mongo, collection: string, key: Document): Promise<DistributionStep['state']> {
  const filter = { _id: `${mongo.db.databaseName}.${collection}` };
  const reply = await mongo.client
    .db('config')
    .command({ find: 'collections', filter, limit: 1 })
    .catch((error: unknown) => {
      if (!(error instanceof MongoServerError && error.code === UNAUTHORIZED)) throw error;
      const missing = 'find on config.collections, as clusterManager has';
      throw new NotDistributable(`the user of MongoDB lacks rights: ${missing}`, { cause: error });
    });
  const [entry] = reply.cursor.firstBatch;
  // MongoDB 8 also lists collections that were moved whole.
  if (entry === undefined || entry.unsplittable === true) return 'whole';
  return JSON.stringify(entry.key) === JSON.stringify(key) ? 'sharded' : 'other';
}
