import { type Document, MongoServerError } from 'mongodb';
import { ATTEMPTS } from '#infra/mongo/attempt/collections.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { liveWorkers, type WorkerRow } from '#infra/mongo/live-workers.ts';
import { NOTIFICATIONS } from '#infra/mongo/notification/collections.ts';
import { takeStoredIds } from '#infra/mongo/notification/snapshots.ts';
import { isRouter } from '#infra/mongo/probe/server.ts';
import { indexesOf, schemaFaults, underMigrationLease } from './migrate.ts';
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
  /** The work as lines for `mongosh`, in their order; none if the collection is finished or refused. */
  commands: string[];
  /** Documents by the collection's own count, which is exact unless a server crashed. */
  documents: number;
}

/** Thrown if the server cannot distribute collections, or if one is distributed by another key. Nothing is changed. */
export class NotDistributable extends Error {
  override name = 'NotDistributable';
}

/** Unique indexes of attempts that schema version 4 needs. Version 5 has others, which begin with the student. */
const FORMER: readonly string[] = ['start_key', 'open_attempt', 'attempt_number'];
/** The oldest schema version whose processes need none of the dropped indexes, and store the id of each snapshot. */
const COMPATIBLE_FROM = 6;
const UNAUTHORIZED = 13;
const NO_SUCH_INDEX = 27;

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
    const refused = (await indexesOf(mongo, collection))
      .filter((index) => index.unique === true && refusesUnique(Object.keys(index.key), placement))
      .map((index) => String(index.name));
    const isFormer = (index: string) => collection === ATTEMPTS && FORMER.includes(index);
    const foreign = refused.filter((index) => !isFormer(index));
    const drops = refused.filter(isFormer);
    // Only a router has this list, and a user of a replica set may lack the right to read it.
    const state = router ? await stateOf(mongo, collection, key) : 'whole';
    const isOpen = state === 'whole' && foreign.length === 0;
    steps.push({
      collection,
      key,
      state,
      drops,
      foreign,
      commands: isOpen ? linesOf(mongo.db.databaseName, { collection, key, drops }) : [],
      documents: await mongo.db.collection(collection).estimatedDocumentCount(),
    });
  }
  return steps;
}

/** Returns what `distribute` sends for one collection, for `mongosh`. A comment names the step that no line can carry out. */
function linesOf(
  database: string,
  { collection, key, drops }: Pick<DistributionStep, 'collection' | 'key' | 'drops'>,
): string[] {
  const rows = `db.getSiblingDB(${JSON.stringify(database)}).getCollection(${JSON.stringify(collection)})`;
  return [
    ...drops.map((index) => `${rows}.dropIndex(${JSON.stringify(index)})`),
    ...(collection === NOTIFICATIONS ? ['// only --yes: store the ids of snapshots of earlier versions'] : []),
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
    // Processes of earlier versions check for the indexes that are dropped here, so they must no longer start. Neither must one past the routers.
    const barred = { compatibleFrom: { $max: ['$compatibleFrom', COMPATIBLE_FROM] }, sharded: true };
    await schemaState(mongo).updateOne({ _id: 'schema', runner }, [{ $set: barred }]);
    for (const { collection, key, state, drops } of steps) {
      if (state === 'sharded') continue;
      await hold();
      for (const name of drops) await dropIndex(mongo, collection, name);
      if (collection === NOTIFICATIONS) await takeStoredIds(mongo, hold);
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

/**
 * Returns a fault for live workers of a version without shard keys, whose statements would reach every shard, or fail. Returns another for
 * those that connect to a shard itself: they would write rows that no router finds.
 */
async function outsiders(mongo: Mongo, now: number): Promise<string[]> {
  const live = await liveWorkers(mongo, now);
  return [
    ...faultOf(
      'of an earlier version are alive',
      live.filter(({ schema = 0 }) => schema < COMPATIBLE_FROM),
    ),
    ...faultOf(
      'connect to a shard instead of a router',
      live.filter(({ router }) => router === false),
    ),
  ];
}

function faultOf(fault: string, processes: readonly WorkerRow[]): string[] {
  const named = processes.map(({ actor, host, pid, version }) => `${actor} ${version} on ${host} (${pid})`);
  return named.length === 0 ? [] : [`processes ${fault}: ${named.join(', ')}`];
}

/** Actions that the move takes on each collection, as MongoDB names them. */
const ACTIONS = ['enableSharding', 'createIndex', 'dropIndex'] as const;

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

/** Drops an index. Another run may have dropped it. */
async function dropIndex(mongo: Mongo, collection: string, name: string): Promise<void> {
  await mongo.db
    .collection(collection)
    .dropIndex(name)
    .catch((error: { code?: unknown }) => {
      if (error.code !== NO_SUCH_INDEX) throw error;
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
