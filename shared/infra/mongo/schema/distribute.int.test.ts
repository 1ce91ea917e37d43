import type { Document, MongoClient } from 'mongodb';
import t from 'tap';
import type { Mongo } from '#infra/mongo/connect.ts';
import { storeAttempt } from '#testing/stored/stored-attempts.ts';
import { openTestMongo, type Teardown } from '#testing/stores/open-test-mongo.ts';
import { tappedDb } from '#testing/stores/tapped-db.ts';
import { distribute, NotDistributable, planDistribution } from './distribute.ts';
import { migrate } from './migrate.ts';
import { schemaState } from './schema-state.ts';
import { PLACEMENTS } from './shard-keys.ts';

/** A database of the present schema with the indexes that version 4 had in addition. */
async function openUpgraded(t: Teardown) {
  const mongo = await openTestMongo(t, { empty: true });
  await migrate(mongo, () => undefined, { isProbed: true });
  const attempts = mongo.db.collection('attempts');
  await attempts.createIndex({ examId: 1, startKeys: 1 }, { name: 'start_key', unique: true });
  await attempts.createIndex({ examId: 1, studentId: 1 }, { name: 'plain_by_exam' });
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
  const admin = {
    async command(command: Document) {
      if ('hello' in command) return { msg: 'isdbgrid' };
      sent.push(command.shardCollection);
      sharded.set(command.shardCollection, command.key);
      return { ok: 1 };
    },
  };
  const config = {
    async command({ filter: { _id } }: Document) {
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
  return { mongo: router, sharded, sent, hashed };
}

t.test('a plan names each sharded collection, its key and the unique indexes in its way', async (t) => {
  const mongo = await openUpgraded(t);
  const plan = await planDistribution(mongo);
  const declared = Object.entries(PLACEMENTS).filter(([, placement]) => 'shardKey' in placement);
  t.strictSame(
    plan.map(({ collection }) => collection),
    declared.map(([collection]) => collection),
  );
  t.match(plan[0], { collection: 'attempts', key: { studentId: 'hashed' }, state: 'whole', drops: ['start_key'] });
  t.ok(plan.slice(1).every(({ drops, state }) => drops.length === 0 && state === 'whole'));
});

t.test('a replica set is refused and nothing changes', async (t) => {
  const mongo = await openUpgraded(t);
  const before = await indexNames(mongo, 'attempts');
  const state = await schemaState(mongo).findOne({});
  await t.rejects(
    distribute(mongo, await planDistribution(mongo), () => undefined),
    NotDistributable,
  );
  t.strictSame(await indexNames(mongo, 'attempts'), before);
  t.strictSame(await schemaState(mongo).findOne({}), state);
});

t.test('a router shards each collection once, after the indexes in its way are gone', async (t) => {
  const direct = await openUpgraded(t);
  await storeAttempt(direct, {});
  const { mongo, sent, sharded, hashed } = asRouter(direct);
  await distribute(mongo, await planDistribution(mongo), () => undefined);
  const indexes = await indexNames(direct, 'attempts');
  t.notOk(indexes.includes('start_key'));
  t.ok(indexes.includes('plain_by_exam'), 'an index that is not unique stays');
  t.strictSame(hashed.toSorted(), [...sharded.keys()].map((name) => name.slice(name.indexOf('.') + 1)).toSorted());
  t.strictSame(sharded.get(`${direct.db.databaseName}.commands`), { key: 'hashed' });
  t.match(await schemaState(direct).findOne({}), { compatibleFrom: 5 });

  const plan = await planDistribution(mongo);
  t.ok(plan.every(({ state }) => state === 'sharded'));
  t.equal(sent.length, plan.length);
  await distribute(mongo, plan, () => undefined);
  t.equal(sent.length, plan.length, 'a repetition finds nothing to do');
});

t.test('a collection with another key, or an older schema, is refused before the first change', async (t) => {
  const direct = await openUpgraded(t);
  const { mongo, sent, sharded } = asRouter(direct);
  sharded.set(`${direct.db.databaseName}.notifications`, { _id: 1 });
  await t.rejects(
    distribute(mongo, await planDistribution(mongo), () => undefined),
    /notifications is sharded by another key/,
  );
  sharded.clear();
  const seats = direct.db.collection('attempt_link_seats');
  await seats.createIndex({ studentId: 1, linkId: 1 }, { name: 'own_rule', unique: true });
  await t.rejects(
    distribute(mongo, await planDistribution(mongo), () => undefined),
    /attempt_link_seats has unique indexes of others: own_rule/,
  );
  await seats.dropIndex('own_rule');
  await direct.db.collection('attempts').dropIndex('start_key_of_student');
  await t.rejects(
    distribute(mongo, await planDistribution(mongo), () => undefined),
    /lacks the unique index start_key_of_student/,
  );
  t.strictSame(sent, []);
  t.ok((await indexNames(direct, 'attempts')).includes('start_key'));
});
