import t, { type Test } from 'tap';
import { openMongo } from '#infra/mongo/connect.ts';
import { WORKERS } from '#infra/mongo/live-workers.ts';
import { COMMANDS } from '#infra/mongo/mailbox/commands.ts';
import { CLUSTER_SAMPLES } from '#infra/mongo/operations/samples.ts';
import { BEHAVIOURS, UnfitServer } from '#infra/mongo/probe/probe.ts';
import { schemaState } from '#infra/mongo/schema-state.ts';
import { openFlawedMongo } from '#testing/stores/flawed-mongo.ts';
import { nameOf } from '#testing/stores/flaws.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { INDEXES, MADE_BEFOREHAND } from './indexes.ts';
import { IndexConflict, migrate, SCHEMA_VERSION, schemaFaults } from './migrate.ts';

/** Runs a migration without the probe, which only the last tests of this file need. */
const migrateUnprobed = (mongo: TestMongo, say: (line: string) => void) => migrate(mongo, say, { isProbed: true });

interface State {
  _id: string;
  version: number;
  compatibleFrom: number;
  runner: string | null;
  lockedUntil: Date | null;
}

async function emptyDatabase(t: Test) {
  const mongo = await openTestMongo(t, { empty: true });
  const lines: string[] = [];
  return {
    mongo,
    lines,
    say: (line: string) => void lines.push(line),
    state: mongo.db.collection<State>('schema_state'),
  };
}

t.test('an empty database is refused until it is migrated, and a second migration changes nothing', async (t) => {
  const { mongo, say } = await emptyDatabase(t);
  t.match(await schemaFaults(mongo), [/version 0 and this code needs/]);
  t.match(await migrateUnprobed(mongo, say), { from: 0, to: SCHEMA_VERSION, applied: [/./] });
  t.strictSame(await schemaFaults(mongo), []);
  for (const { collection, name, keys, options } of INDEXES) {
    const [found] = (await mongo.db.collection(collection).indexes()).filter((index) => index.name === name);
    t.strictSame(Object.entries(found?.key ?? {}), Object.entries(keys), `${collection}.${name}`);
    t.equal(found?.unique ?? false, options?.unique ?? false);
    t.strictSame(found?.partialFilterExpression, options?.partialFilterExpression);
  }
  const made = new Set((await mongo.db.listCollections().toArray()).map(({ name }) => name));
  t.ok(MADE_BEFOREHAND.every((name) => made.has(name)));
  t.strictSame((await migrateUnprobed(mongo, say)).applied, []);
});

t.test('one of several concurrent migrations runs, and the others wait and find nothing to do', async (t) => {
  const { mongo, say, state } = await emptyDatabase(t);
  const reports = await Promise.all([
    migrateUnprobed(mongo, say),
    migrateUnprobed(mongo, say),
    migrateUnprobed(mongo, say),
  ]);
  t.equal(reports.filter((report) => report.applied.length > 0).length, 1);
  t.strictSame(await schemaFaults(mongo), []);
  t.match(await state.findOne({}), { runner: null, lockedUntil: null });
});

t.test('a migration starts after a killed one when its lease expires, and not before', async (t) => {
  const { mongo, lines, say, state } = await emptyDatabase(t);
  const lockedUntil = new Date(Date.now() + 3_000);
  await state.insertOne({ _id: 'schema', version: 0, compatibleFrom: 0, runner: 'killed', lockedUntil });
  t.match(await migrateUnprobed(mongo, say), { from: 0, to: SCHEMA_VERSION });
  t.ok(Date.now() >= lockedUntil.getTime());
  t.ok(lines.includes('another migration is running; waiting for it'));
  t.strictSame(await schemaFaults(mongo), []);
});

t.test('a migration that lost its lease stores no version', async (t) => {
  const { mongo, state } = await emptyDatabase(t);
  const stolen = migrateUnprobed(mongo, () => {
    // This report comes between taking the lease and the first step.
    void state.updateOne({ _id: 'schema' }, { $set: { runner: 'thief', lockedUntil: new Date(Date.now() + 60_000) } });
  });
  await t.rejects(stolen, /the migration lease was lost/);
  t.match(await state.findOne({}), { version: 0, runner: 'thief' }, 'the new holder keeps its lease');
});

t.test('a newer schema is accepted if it declares itself compatible, and an older one never', async (t) => {
  const { mongo, say, state } = await emptyDatabase(t);
  await migrateUnprobed(mongo, say);
  const set = (fields: Partial<State>) => state.updateOne({ _id: 'schema' }, { $set: fields });
  await set({ version: SCHEMA_VERSION + 3, compatibleFrom: SCHEMA_VERSION });
  t.strictSame(await schemaFaults(mongo), []);
  t.match(
    await migrateUnprobed(mongo, say),
    { to: SCHEMA_VERSION + 3, applied: [] },
    'an older release does not lower the version',
  );
  t.match(await state.findOne({}), { version: SCHEMA_VERSION + 3 });
  await set({ compatibleFrom: SCHEMA_VERSION + 1 });
  t.match(await schemaFaults(mongo), [/no longer works with version/]);
  await set({ version: SCHEMA_VERSION - 1, compatibleFrom: 0 });
  t.match(await schemaFaults(mongo), [/run `npm run migrate`/]);
});

t.test('a missing unique index prevents the start, and the next migration creates it again', async (t) => {
  const { mongo, say } = await emptyDatabase(t);
  await migrateUnprobed(mongo, say);
  const unique = INDEXES.filter((index) => index.options?.unique === true);
  t.ok(unique.length >= 8);
  for (const { collection, name } of unique) {
    await mongo.db.collection(collection).dropIndex(name);
    t.strictSame(
      await schemaFaults(mongo),
      [`${collection} lacks the unique index ${name}, which prevents duplicates: run \`npm run migrate\``],
      name,
    );
    await migrateUnprobed(mongo, say);
    t.strictSame(await schemaFaults(mongo), []);
  }
  // An index of the same name over other fields does not count.
  await mongo.db.collection('attempts').dropIndex('open_attempt_of_student');
  await mongo.db
    .collection('attempts')
    .createIndex({ paperId: 1, _id: 1 }, { name: 'open_attempt_of_student', unique: true });
  t.match(await schemaFaults(mongo), [/attempts lacks the unique index open_attempt_of_student/]);
  await mongo.db.collection('attempts').dropIndex('open_attempt_of_student');
  await mongo.db.collection('attempt_texts').drop();
  await mongo.db.collection('attempt_link_seats').drop();
  t.equal((await schemaFaults(mongo)).length, 3, 'a missing collection lacks its indexes');
});

t.test(
  'a database of the version before the baseline becomes one of the baseline, without its processes',
  async (t) => {
    const { mongo, say, state } = await emptyDatabase(t);
    await state.insertOne({ _id: 'schema', version: 8, compatibleFrom: 1, runner: null, lockedUntil: null });
    const commands = mongo.db.collection<{ _id: string; movedAt?: Date }>(COMMANDS);
    const movedAt = new Date(Date.now() - 60_000);
    const at = new Date(Date.now() + 60_000);
    const leased = { queue: 'grading', status: 'PENDING', nextRunAt: at, lockedUntil: at };
    await commands.insertMany([
      { _id: 'leased', key: 'a', ...leased },
      { _id: 'moved', key: 'b', ...leased, movedAt },
      { _id: 'waiting', key: 'c', ...leased, lockedUntil: null },
    ] as never);
    await mongo.db.collection(WORKERS).insertOne({ seenAt: new Date() });
    await mongo.db.collection(CLUSTER_SAMPLES).insertOne({ at: new Date(), queues: [{ queue: 'grading', due: 1 }] });
    t.match(await schemaFaults(mongo), [/version 8 and this code needs \d+: run `npm run migrate`/]);
    t.match(await migrateUnprobed(mongo, say), { from: 8, to: SCHEMA_VERSION, applied: ['the baseline', /exam/] });
    t.strictSame(await schemaFaults(mongo), []);
    t.match(
      await state.findOne({}),
      { version: SCHEMA_VERSION, compatibleFrom: 9 },
      'a process of version 8 no longer starts',
    );
    const moved = new Map((await commands.find().toArray()).map((row) => [row._id, row.movedAt]));
    t.type(moved.get('leased'), Date);
    t.strictSame(moved.get('moved'), movedAt);
    t.equal(moved.get('waiting'), undefined);
    for (const name of [WORKERS, CLUSTER_SAMPLES]) t.equal(await mongo.db.collection(name).countDocuments({}), 0, name);
  },
);

t.test('a database of a version that no release had is refused and stays as it is', async (t) => {
  const { mongo, say, state } = await emptyDatabase(t);
  const row = { version: 7, compatibleFrom: 1, runner: null, lockedUntil: null };
  await state.insertOne({ _id: 'schema', ...row });
  t.match(await schemaFaults(mongo), [
    /^the schema is at version 7, which no release had: begin with an empty database/,
  ]);
  await t.rejects(migrateUnprobed(mongo, say), {
    name: 'MigrationRefused',
    message: /version 7, which no release had/,
  });
  t.match(await state.findOne({}), row);
  const made = (await mongo.db.listCollections().toArray()).map(({ name }) => name);
  t.strictSame(made, ['schema_state']);
});

t.test('a migration names the index that prevents a declared one', async (t) => {
  const { mongo, say } = await emptyDatabase(t);
  await mongo.db.collection('operator_audit').createIndex({ reason: 1 }, { name: 'in_pages' });
  const refused: unknown = await migrateUnprobed(mongo, say).catch((error: unknown) => error);
  t.type(refused, IndexConflict);
  t.match(refused, {
    message: /^an index of operator_audit prevents a declared one: drop it and run .*MongoDB: .*in_pages/,
  });
});

t.test(
  'a migration probes the server once, and again after the server or the list of behaviours has changed',
  async (t) => {
    const mongo = await openTestMongo(t, { empty: true });
    const migrated = async () => {
      const lines: string[] = [];
      await migrate(mongo, (line) => lines.push(line));
      return lines.filter((line) => line.startsWith('probing'));
    };
    const passed = async () => (await schemaState(mongo).findOne({ _id: 'schema' }))?.passed;
    const change = (fields: object) => schemaState(mongo).updateOne({ _id: 'schema' }, { $set: fields });

    t.match(await migrated(), [/^probing the server: MongoDB \d/]);
    const first = await passed();
    t.strictSame(
      first?.behaviours,
      BEHAVIOURS.map(({ name }) => name),
    );
    t.strictSame(await migrated(), [], 'not again');
    await change({ 'passed.build': '6.0.0 0123456789abcdef' });
    t.equal((await migrated()).length, 1, 'another server');
    await change({ 'passed.behaviours': BEHAVIOURS.slice(1).map(({ name }) => name) });
    t.equal((await migrated()).length, 1, 'a behaviour more');
    t.strictSame(await passed(), first);
    t.strictSame(await schemaFaults(mongo), []);
  },
);

/** Opens the same database behind a server with these flaws. */
async function flawed(t: Test, real: TestMongo, flaws: Parameters<typeof openFlawedMongo>[2]) {
  const url = await openFlawedMongo(t, real.url, flaws);
  const mongo = openMongo({ url, database: real.database, appName: 'examhall-test' });
  t.teardown(() => mongo.close());
  return mongo;
}

t.test('a migration on an unfit server throws UnfitServer and changes nothing', async (t) => {
  const real = await openTestMongo(t, { empty: true });
  const mongo = await flawed(t, real, {
    command(command) {
      // Some servers that only implement the protocol lack pipelines in updates. The migration could not even take its lease there.
      const [update] = command.updates ?? [];
      const isPipeline = Array.isArray(command.update) || Array.isArray(update?.u);
      return isPipeline ? { ok: 0, code: 9, errmsg: 'update pipelines are not supported' } : undefined;
    },
  });
  const error = await t.rejects(migrate(mongo, () => undefined));
  t.type(error, UnfitServer);
  t.match(error, { message: /guarded updates: it is refused with "update pipelines are not supported"/ });
  t.strictSame(await real.db.listCollections().toArray(), []);
});

t.test('a migration is refused if the server has passed a probe before but lacks a behaviour now', async (t) => {
  const real = await openTestMongo(t, { empty: true });
  await migrateUnprobed(real, () => undefined);
  const mongo = await flawed(t, real, {
    command: (command) => (nameOf(command) === 'killSessions' ? { ok: 1 } : undefined),
  });
  await t.rejects(
    migrate(mongo, () => undefined),
    { message: /ended sessions: after killSessions/ },
  );
  t.match(await schemaState(real).findOne({}), { version: SCHEMA_VERSION, runner: null, passed: undefined });
});
