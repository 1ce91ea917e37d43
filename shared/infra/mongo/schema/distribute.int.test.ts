import { type Document, type MongoClient, MongoServerError } from 'mongodb';
import t from 'tap';
import type { Mongo } from '#infra/mongo/connect.ts';
import { WORKERS, type WorkerRow } from '#infra/mongo/live-workers.ts';
import { schemaState } from '#infra/mongo/schema-state.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { storeAttempt } from '#testing/stored/stored-attempts.ts';
import { workerRow } from '#testing/stored/stored-workers.ts';
import { openTestMongo, type Teardown } from '#testing/stores/open-test-mongo.ts';
import { tappedDb } from '#testing/stores/tapped-db.ts';
import { distribute, NotDistributable, planDistribution } from './distribute.ts';
import { migrate, SCHEMA_VERSION, schemaFaults } from './migrate.ts';
import { PLACEMENTS } from './shard-keys.ts';

const QUIETLY = { now: Date.now(), report: () => undefined };

/** A database as a release leaves it, with an index of an operator. */
async function openMigrated(t: Teardown) {
  const mongo = await openTestMongo(t, { empty: true });
  await migrate(mongo, () => undefined, { isProbed: true });
  await mongo.db.collection('attempts').createIndex({ examId: 1, studentId: 1 }, { name: 'plain_by_exam' });
  return mongo;
}

async function indexNames(mongo: Mongo, collection: string): Promise<string[]> {
  return (await mongo.db.collection(collection).indexes()).map(({ name }) => String(name));
}

/**
 * Lets the server act as a router: it answers for `admin`, for the router's own list of sharded collections, and for hashed indexes,
 * which the stand-ins lack.
 */
function asRouter(mongo: Mongo) {
  const sharded = new Map<string, Document>();
  const sent: string[] = [];
  const hashed: string[] = [];
  /** The privileges of the user; null without access control. */
  const user: { privileges: Document[] | null; readsConfig: boolean } = { privileges: null, readsConfig: true };
  const admin = {
    async command(command: Document) {
      if ('hello' in command) return { msg: 'isdbgrid' };
      if ('connectionStatus' in command) {
        const { privileges } = user;
        const authenticatedUsers = privileges === null ? [] : [{ user: 'operator' }];
        return { authInfo: { authenticatedUsers, authenticatedUserPrivileges: privileges ?? [] } };
      }
      sent.push(command.shardCollection);
      sharded.set(command.shardCollection, command.key);
      return { ok: 1 };
    },
  };
  const config = {
    async command({ filter: { _id } }: Document) {
      if (!user.readsConfig) throw new MongoServerError({ code: 13, message: 'not authorized on config' });
      const key = sharded.get(_id);
      return { cursor: { firstBatch: key === undefined ? [] : [{ _id, key }] } };
    },
  };
  const client = new Proxy(mongo.client, {
    get(target, name) {
      if (name !== 'db') return Reflect.get(target, name, target);
      return (database: string) => ({ admin, config })[database] ?? target.db(database);
    },
  });
  const db = tappedDb(mongo, (_method, name, collection) =>
    name === 'createIndex' ? async () => hashed.push(collection) : undefined,
  );
  const router: Mongo = { ...mongo, db, client: client as MongoClient };
  return { mongo: router, sharded, sent, hashed, user };
}

t.test('a plan names each sharded collection, its key and the unique indexes in its way', async (t) => {
  const mongo = await openMigrated(t);
  const plan = await planDistribution(mongo);
  const declared = Object.entries(PLACEMENTS).filter(([, placement]) => 'shardKey' in placement);
  t.strictSame(
    plan.map(({ collection }) => collection),
    declared.map(([collection]) => collection),
  );
  t.match(plan[0], { collection: 'attempts', key: { studentId: 'hashed' }, foreign: [] });
  t.ok(plan.every(({ state }) => state === 'whole'));
  await mongo.db.collection('attempts').createIndex({ examId: 1, startKeys: 1 }, { name: 'own_rule', unique: true });
  t.match((await planDistribution(mongo))[0], { collection: 'attempts', foreign: ['own_rule'], commands: [] });
});

t.test('a replica set is refused and nothing changes', async (t) => {
  const mongo = await openMigrated(t);
  const before = await indexNames(mongo, 'attempts');
  const state = await schemaState(mongo).findOne({});
  await t.rejects(distribute(mongo, QUIETLY), NotDistributable);
  t.strictSame(await indexNames(mongo, 'attempts'), before);
  t.strictSame(await schemaState(mongo).findOne({}), state);
});

t.test('a plan shows what it sends as lines for mongosh, and none for a finished collection', async (t) => {
  const { mongo, sent } = asRouter(await openMigrated(t));
  const name = mongo.db.databaseName;
  const before = await planDistribution(mongo);
  const lines = before.flatMap(({ commands }) => commands);
  await distribute(mongo, QUIETLY);
  const sharded = lines.flatMap((line) => /^sh\.shardCollection\("([^"]+)", \{.*"hashed"\}\)$/.exec(line)?.[1] ?? []);
  t.strictSame(sharded, sent, 'one line for each collection that --yes shards');
  const attempts = before.find(({ collection }) => collection === 'attempts');
  t.strictSame(attempts?.commands, [
    `db.getSiblingDB("${name}").getCollection("attempts").createIndex({"studentId":"hashed"})`,
    `sh.shardCollection("${name}.attempts", {"studentId":"hashed"})`,
  ]);
  t.ok((await planDistribution(mongo)).every(({ commands }) => commands.length === 0));
});

t.test('a router shards each collection once', async (t) => {
  const direct = await openMigrated(t);
  await storeAttempt(direct, {});
  const { mongo, sent, sharded, hashed } = asRouter(direct);
  await distribute(mongo, QUIETLY);
  t.ok((await indexNames(direct, 'attempts')).includes('plain_by_exam'), 'an index that is not unique stays');
  t.strictSame(hashed.toSorted(), [...sharded.keys()].map((name) => name.slice(name.indexOf('.') + 1)).toSorted());
  t.strictSame(sharded.get(`${direct.db.databaseName}.commands`), { key: 'hashed' });
  t.match(await schemaState(direct).findOne({}), { compatibleFrom: SCHEMA_VERSION, sharded: true });

  const plan = await planDistribution(mongo);
  t.ok(plan.every(({ state }) => state === 'sharded'));
  t.equal(sent.length, plan.length);
  await distribute(mongo, QUIETLY);
  t.equal(sent.length, plan.length, 'a repetition finds nothing to do');
});

t.test(
  'a collection with another key or an index in the way, or an incomplete schema, is refused before the first change',
  async (t) => {
    const direct = await openMigrated(t);
    const { mongo, sent, sharded } = asRouter(direct);
    sharded.set(`${direct.db.databaseName}.notifications`, { _id: 1 });
    await t.rejects(distribute(mongo, QUIETLY), /notifications is sharded by another key/);
    sharded.clear();
    const seats = direct.db.collection('attempt_link_seats');
    await seats.createIndex({ studentId: 1, linkId: 1 }, { name: 'own_rule', unique: true });
    await t.rejects(distribute(mongo, QUIETLY), /attempt_link_seats has unique indexes of others: own_rule/);
    await seats.dropIndex('own_rule');
    await direct.db.collection('attempts').dropIndex('start_key_of_student');
    await t.rejects(distribute(mongo, QUIETLY), /lacks the unique index start_key_of_student/);
    t.strictSame(sent, []);
    t.notOk((await schemaState(direct).findOne({}))?.sharded);
  },
);

t.test('the move waits for a migration, and stops if another runner takes the lease over', async (t) => {
  const direct = await openMigrated(t);
  const { mongo, sent } = asRouter(direct);
  const leased = (runner: string | null, lockedUntil: Date | null) =>
    schemaState(direct).updateOne({ _id: 'schema' }, { $set: { runner, lockedUntil } });
  await leased('another', new Date(Date.now() + HOUR));
  const lines: string[] = [];
  async function report(line: string): Promise<void> {
    if (lines.push(line) === 1) {
      t.strictSame(sent, [], 'nothing before the lease');
      await leased(null, null);
    } else await leased('another', new Date(Date.now() + HOUR));
  }
  const reported: Promise<void>[] = [];
  const moving = distribute(mongo, { ...QUIETLY, report: (line) => void reported.push(report(line)) });
  await t.rejects(moving, /lease was lost/);
  await Promise.all(reported);
  t.match(lines[0], /another migration is running/);
  t.ok(sent.length < (await planDistribution(mongo)).length, `${sent.length} collections before the loss`);
  t.match(await schemaState(direct).findOne({}), { runner: 'another' }, 'the lease of the other stays');
});

t.test('the move is refused while a worker connects to a shard instead of a router', async (t) => {
  const direct = await openMigrated(t);
  const { mongo, sent } = asRouter(direct);
  const rows = direct.db.collection<WorkerRow>(WORKERS);
  const at = { host: 'h', pid: 7, version: '1' };
  await rows.insertOne(workerRow('grading', { _id: 'past', ...at, router: false }));
  await t.rejects(distribute(mongo, QUIETLY), /connect to a shard instead of a router: grading 1 on h \(7\)/);
  t.strictSame(sent, []);
  const state = await schemaState(direct).findOne({});
  t.equal(state?.runner, null);
  t.notOk(state?.sharded);
  await rows.updateOne({ _id: 'past' }, { $set: { router: true } });
  const killed = { _id: 'killed', router: false, seenAt: new Date(Date.now() - HOUR) };
  await rows.insertMany([workerRow('grading', { _id: 'unknown' }), workerRow('grading', killed)]);
  await distribute(mongo, QUIETLY);
  t.ok(sent.length > 0, 'neither one behind a router, nor one that does not know, nor a killed one is in the way');
});

t.test('after the move, only a process that connects to a router may start', async (t) => {
  const direct = await openMigrated(t);
  const { mongo } = asRouter(direct);
  t.strictSame(await schemaFaults(direct), []);
  await distribute(mongo, QUIETLY);
  t.match(await schemaFaults(direct), [/MONGODB_URL names no router/]);
  t.strictSame(await schemaFaults(mongo), []);
  await migrate(mongo, () => undefined, { isProbed: true });
  t.match(await schemaFaults(direct), [/MONGODB_URL names no router/], 'a release does not forget it');
  await direct.db.collection('attempts').dropIndex('by_student');
  await t.rejects(
    migrate(direct, () => undefined, { isProbed: true }),
    { name: 'MigrationRefused', message: /MONGODB_URL names no router/ },
  );
  t.notOk((await indexNames(direct, 'attempts')).includes('by_student'), 'a release past the routers changes nothing');
});

t.test('a user who may not read the list of sharded collections learns which right is missing', async (t) => {
  const { mongo, sent, user } = asRouter(await openMigrated(t));
  user.readsConfig = false;
  const refusal = { name: 'NotDistributable', message: /lacks rights: find on config\.collections/ };
  await t.rejects(planDistribution(mongo), refusal);
  await t.rejects(distribute(mongo, QUIETLY), refusal);
  t.strictSame(sent, []);
});

t.test('the move is refused to a user without the rights for it', async (t) => {
  const direct = await openMigrated(t);
  const { mongo, sent, user } = asRouter(direct);
  const db = direct.db.databaseName;
  const all = ['createIndex', 'enableSharding'];
  for (const [privileges, missing] of [
    [[], /enableSharding on attempts, createIndex on attempts/],
    [[{ resource: { db, collection: '' }, actions: ['createIndex'] }], /rights: enableSharding on attempts$/],
    [[{ resource: { db: 'other', collection: '' }, actions: all }], /enableSharding on attempts/],
    [[{ resource: { db, collection: 'attempts' }, actions: all }], /enableSharding on attempt_events/],
    [[{ resource: { cluster: true }, actions: all }], /enableSharding on attempts/],
  ] as const) {
    user.privileges = [...privileges];
    await t.rejects(distribute(mongo, QUIETLY), missing);
  }
  t.strictSame(sent, []);
  t.notOk((await schemaState(direct).findOne({}))?.sharded);
  // The roles clusterManager and readWrite.
  user.privileges = [
    { resource: { db: '', collection: '' }, actions: ['enableSharding', 'moveChunk'] },
    { resource: { db, collection: '' }, actions: ['find', 'createIndex'] },
  ];
  await distribute(mongo, QUIETLY);
  t.ok(sent.length > 0);
});
