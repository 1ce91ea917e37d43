import t from 'tap';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { INDEXES, MADE_BEFOREHAND } from './indexes.ts';
import { IndexConflict, migrate as migrateProbed, SCHEMA_VERSION, schemaFaults } from './migrate.ts';

/** Runs a migration without the probe, which has its own tests. */
const migrate = (mongo: TestMongo, say: (line: string) => void) => migrateProbed(mongo, say, { isProbed: true });

interface State {
  _id: string;
  version: number;
  compatibleFrom: number;
  runner: string | null;
  lockedUntil: Date | null;
}

async function emptyDatabase(t: Tap) {
  const mongo = await openTestMongo(t, { empty: true });
  const lines: string[] = [];
  return {
    mongo,
    lines,
    say: (line: string) => void lines.push(line),
    state: mongo.db.collection<State>('schema_state'),
  };
}
type Tap = Parameters<typeof openTestMongo>[0];

t.test('an empty database is refused until it is migrated, and a second migration changes nothing', async (t) => {
  const { mongo, say } = await emptyDatabase(t);
  t.match(await schemaFaults(mongo), [/version 0 and this code needs/]);
  t.match(await migrate(mongo, say), { from: 0, to: SCHEMA_VERSION, applied: [/./] });
  t.strictSame(await schemaFaults(mongo), []);
  for (const { collection, name, keys, options } of INDEXES) {
    const [found] = (await mongo.db.collection(collection).indexes()).filter((index) => index.name === name);
    t.strictSame(Object.entries(found?.key ?? {}), Object.entries(keys), `${collection}.${name}`);
    t.equal(found?.unique ?? false, options?.unique ?? false);
    t.strictSame(found?.partialFilterExpression, options?.partialFilterExpression);
  }
  const made = new Set((await mongo.db.listCollections().toArray()).map(({ name }) => name));
  t.ok(MADE_BEFOREHAND.every((name) => made.has(name)));
  t.strictSame((await migrate(mongo, say)).applied, []);
});

t.test('one of several concurrent migrations runs, and the others wait and find nothing to do', async (t) => {
  const { mongo, say, state } = await emptyDatabase(t);
  const reports = await Promise.all([migrate(mongo, say), migrate(mongo, say), migrate(mongo, say)]);
  t.equal(reports.filter((report) => report.applied.length > 0).length, 1);
  t.strictSame(await schemaFaults(mongo), []);
  t.match(await state.findOne({}), { runner: null, lockedUntil: null });
});

t.test('a migration starts after a killed one when its lease expires, and not before', async (t) => {
  const { mongo, lines, say, state } = await emptyDatabase(t);
  const lockedUntil = new Date(Date.now() + 3_000);
  await state.insertOne({ _id: 'schema', version: 0, compatibleFrom: 0, runner: 'killed', lockedUntil });
  t.match(await migrate(mongo, say), { from: 0, to: SCHEMA_VERSION });
  t.ok(Date.now() >= lockedUntil.getTime());
  t.ok(lines.includes('another migration is running; waiting for it'));
  t.strictSame(await schemaFaults(mongo), []);
});

t.test('a migration that lost its lease stores no version', async (t) => {
  const { mongo, state } = await emptyDatabase(t);
  const stolen = migrate(mongo, () => {
    // This report comes between taking the lease and the first step.
    void state.updateOne({ _id: 'schema' }, { $set: { runner: 'thief', lockedUntil: new Date(Date.now() + 60_000) } });
  });
  await t.rejects(stolen, /the migration lease was lost/);
  t.match(await state.findOne({}), { version: 0, runner: 'thief' }, 'the new holder keeps its lease');
});

t.test('a newer schema is accepted if it declares itself compatible, and an older one never', async (t) => {
  const { mongo, say, state } = await emptyDatabase(t);
  await migrate(mongo, say);
  const set = (fields: Partial<State>) => state.updateOne({ _id: 'schema' }, { $set: fields });
  await set({ version: SCHEMA_VERSION + 3, compatibleFrom: SCHEMA_VERSION });
  t.strictSame(await schemaFaults(mongo), []);
  t.match(
    await migrate(mongo, say),
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
  await migrate(mongo, say);
  const unique = INDEXES.filter((index) => index.options?.unique === true);
  t.ok(unique.length >= 8);
  for (const { collection, name } of unique) {
    await mongo.db.collection(collection).dropIndex(name);
    t.strictSame(
      await schemaFaults(mongo),
      [`${collection} lacks the unique index ${name}, which prevents duplicates: run \`npm run migrate\``],
      name,
    );
    await migrate(mongo, say);
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

t.test('version 4 goes on beside version 5: its unique indexes stay', async (t) => {
  const { mongo, say, state } = await emptyDatabase(t);
  const attempts = mongo.db.collection<{ _id: string; examId: string; studentId: string; startKeys: string[] }>(
    'attempts',
  );
  const ofVersion4 = [
    { name: 'start_key', key: { examId: 1, studentId: 1, startKeys: 1 }, unique: true },
    { name: 'attempt_number', key: { examId: 1, studentId: 1, attemptNumber: 1 }, unique: true },
  ];
  await attempts.createIndexes(ofVersion4);
  await state.insertOne({ _id: 'schema', version: 4, compatibleFrom: 1, runner: null, lockedUntil: null });
  const row = { examId: 'exam', studentId: 'an', startKeys: ['key'], attemptNumber: 1 };
  await attempts.insertOne({ _id: 'first', ...row });
  t.match(await schemaFaults(mongo), [/version 4 and this code needs/]);
  t.match(await migrate(mongo, say), { from: 4, to: SCHEMA_VERSION });
  t.strictSame(await schemaFaults(mongo), []);
  const names = new Set((await attempts.indexes()).map(({ name }) => name));
  for (const { name } of ofVersion4) t.ok(names.has(name), name);
  await t.rejects(attempts.insertOne({ _id: 'second', ...row }), { code: 11000 });
  await attempts.dropIndex('start_key');
  await attempts.dropIndex('attempt_number');
  await t.rejects(attempts.insertOne({ _id: 'second', ...row }), { code: 11000 }, 'the new ones hold as well');
});

t.test('a migration names the index that prevents a declared one', async (t) => {
  const { mongo, say } = await emptyDatabase(t);
  await mongo.db.collection('operator_audit').createIndex({ reason: 1 }, { name: 'in_pages' });
  const refused: unknown = await migrate(mongo, say).catch((error: unknown) => error);
  t.type(refused, IndexConflict);
  t.match(refused, {
    message: /^an index of operator_audit prevents a declared one: drop it and run .*MongoDB: .*in_pages/,
  });
});
