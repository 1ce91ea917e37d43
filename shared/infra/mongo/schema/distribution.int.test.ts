import vm from 'node:vm';
import { type Document, type MongoClient, MongoServerError } from 'mongodb';
import t from 'tap';
import type { Mongo } from '#infra/mongo/connect.ts';
import { WORKERS, type WorkerRow } from '#infra/mongo/live-workers.ts';
import { schemaState } from '#infra/mongo/schema-state.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { workerRow } from '#testing/stored/stored-commands.ts';
import { openTestMongo, type Teardown } from '#testing/stores/open-test-mongo.ts';
import { readDistribution } from './distribution.ts';
import { migrate, schemaFaults } from './migrate.ts';
import { PLACEMENTS } from './shard-keys.ts';

const read = (mongo: Mongo) => readDistribution(mongo, Date.now());

/** A database as a release leaves it. */
async function openMigrated(t: Teardown) {
  const mongo = await openTestMongo(t, { empty: true });
  await migrate(mongo, () => undefined, { isProbed: true });
  return mongo;
}

/** Lets the server act as a router: it answers for `admin` and for the router's own list of sharded collections. */
function asRouter(mongo: Mongo) {
  const sharded = new Map<string, Document>();
  const user = { readsConfig: true };
  const admin = { command: async () => ({ msg: 'isdbgrid' }) };
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
  return { mongo: { ...mongo, client: client as MongoClient } satisfies Mongo, sharded, user };
}

/** Runs lines as `mongosh` does, and returns what they did. The stand-ins of MongoDB lack hashed indexes, so that these are only noted. */
async function runLines(mongo: Mongo, sharded: Map<string, Document>, lines: readonly string[]) {
  const did: string[] = [];
  const globals = {
    db: {
      getSiblingDB: (database: string) => ({
        getCollection: (name: string) => ({
          createIndex: (key: Document) => did.push(`index ${name} ${Object.keys(key)} ${Object.values(key)}`),
          updateOne: (filter: Document, update: Document) =>
            mongo.client
              .db(database)
              .collection(name)
              .updateOne(filter, update)
              .then(() => did.push(`mark ${name}`)),
        }),
      }),
    },
    sh: {
      shardCollection(collection: string, key: Document) {
        did.push(`shard ${collection}`);
        sharded.set(collection, { ...key });
      },
    },
  };
  for (const line of lines) await vm.runInNewContext(line, globals);
  return did;
}

t.test('a plan names each sharded collection, its key and the unique indexes in its way', async (t) => {
  const direct = await openMigrated(t);
  const { mongo } = asRouter(direct);
  const { steps, faults } = await read(mongo);
  const declared = Object.entries(PLACEMENTS).filter(([, placement]) => 'shardKey' in placement);
  t.strictSame(
    steps.map(({ collection, state, foreign }) => [collection, state, foreign]),
    declared.map(([collection]) => [collection, 'whole', []]),
  );
  t.match(steps[0], { collection: 'attempts', key: { studentId: 'hashed' }, documents: 0 });
  t.strictSame(faults, []);
  const seats = direct.db.collection('attempt_link_seats');
  await seats.createIndex({ studentId: 1, linkId: 1 }, { name: 'own_rule', unique: true });
  await direct.db.collection('attempts').createIndex({ examId: 1, studentId: 1 }, { name: 'own_order' });
  const refused = await read(mongo);
  t.strictSame(refused.faults, ['attempt_link_seats has unique indexes of others: own_rule']);
  t.strictSame(refused.lines, []);
});

t.test('the lines carry the move out in mongosh, and the next reading finds it done', async (t) => {
  const direct = await openMigrated(t);
  const { mongo, sharded } = asRouter(direct);
  const before = await read(mongo);
  const did = await runLines(direct, sharded, before.lines);
  const wanted = before.steps.flatMap(({ collection, key }) => [
    `index ${collection} ${Object.keys(key)} hashed`,
    `shard ${direct.db.databaseName}.${collection}`,
  ]);
  t.strictSame(did, ['mark schema_state', ...wanted], 'the mark comes before the first collection');
  const after = await read(mongo);
  t.match(after, { faults: [], lines: [] });
  t.ok(after.steps.every(({ state }) => state === 'sharded'));
});

t.test('a move that was interrupted goes on with what is left, and a missing mark is left too', async (t) => {
  const direct = await openMigrated(t);
  const { mongo, sharded } = asRouter(direct);
  const { lines } = await read(mongo);
  await runLines(direct, sharded, lines.slice(0, 5));
  t.strictSame((await read(mongo)).lines, lines.slice(5));
  await runLines(direct, sharded, lines.slice(5));
  await schemaState(direct).updateOne({ _id: 'schema' }, { $unset: { sharded: 1 } });
  t.strictSame((await read(mongo)).lines, lines.slice(0, 1));
});

t.test('no line moves a collection that has another key, or an incomplete schema', async (t) => {
  const direct = await openMigrated(t);
  const { mongo, sharded } = asRouter(direct);
  sharded.set(`${direct.db.databaseName}.notifications`, { _id: 1 });
  t.match(await read(mongo), { faults: [/^notifications is sharded by another key/], lines: [] });
  sharded.clear();
  await direct.db.collection('attempts').dropIndex('start_key_of_student');
  t.match(await read(mongo), { faults: [/lacks the unique index start_key_of_student/], lines: [] });
});

t.test('a replica set gets the plan and no line', async (t) => {
  const { steps, faults, lines } = await read(await openMigrated(t));
  t.ok(steps.length > 0 && steps.every(({ state }) => state === 'whole'));
  t.strictSame({ faults, lines }, { faults: ['this server is no router (mongos) of a sharded cluster'], lines: [] });
});

t.test('no line while a worker connects to a shard instead of a router', async (t) => {
  const direct = await openMigrated(t);
  const { mongo } = asRouter(direct);
  const rows = direct.db.collection<WorkerRow>(WORKERS);
  await rows.insertOne(workerRow('grading', { _id: 'past', host: 'h', pid: 7, version: '1', router: false }));
  t.match(await read(mongo), {
    faults: [/^processes connect to a shard instead of a router: grading 1 on h \(7\)$/],
    lines: [],
  });
  await rows.updateOne({ _id: 'past' }, { $set: { router: true } });
  const killed = { _id: 'killed', router: false, seenAt: new Date(Date.now() - HOUR) };
  await rows.insertMany([workerRow('grading', { _id: 'unknown' }), workerRow('grading', killed)]);
  const { faults, lines } = await read(mongo);
  t.strictSame(faults, [], 'neither one behind a router, nor one that does not know, nor a killed one is in the way');
  t.ok(lines.length > 0);
});

t.test('after the move, only a process that connects to a router may start', async (t) => {
  const direct = await openMigrated(t);
  const { mongo, sharded } = asRouter(direct);
  t.strictSame(await schemaFaults(direct), []);
  await runLines(direct, sharded, (await read(mongo)).lines);
  t.match(await schemaFaults(direct), [/MONGODB_URL names no router/]);
  t.strictSame(await schemaFaults(mongo), []);
  await migrate(mongo, () => undefined, { isProbed: true });
  t.match(await schemaFaults(direct), [/MONGODB_URL names no router/], 'a release does not forget it');
  await direct.db.collection('attempts').dropIndex('by_student');
  await t.rejects(
    migrate(direct, () => undefined, { isProbed: true }),
    { name: 'MigrationRefused', message: /MONGODB_URL names no router/ },
  );
  const names = (await direct.db.collection('attempts').indexes()).map(({ name }) => name);
  t.notOk(names.includes('by_student'), 'a release past the routers changes nothing');
});

t.test('a user who may not read the list of sharded collections learns which right is missing', async (t) => {
  const { mongo, user } = asRouter(await openMigrated(t));
  user.readsConfig = false;
  t.match(await read(mongo), { steps: [], faults: [/lacks rights: find on config\.collections/], lines: [] });
});
