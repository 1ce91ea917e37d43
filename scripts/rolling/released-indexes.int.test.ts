import t from 'tap';
import { createIndexes, IndexConflict, migrate, schemaFaults } from '#infra/mongo/schema/migrate.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { readReleased } from './released-indexes.ts';

const silent = () => undefined;

// An earlier name may stand for several indexes, of which a database has one.
for (const [which, chosen] of [
  ['oldest', readReleased().toReversed()],
  ['newest', readReleased()],
] as const) {
  t.test(`a database with every earlier index is migrated: the ${which} of each name`, async (t) => {
    const mongo = await openTestMongo(t, { empty: true });
    const byName = new Map(chosen.map((index) => [`${index.collection}.${index.name}`, index]));
    await createIndexes(mongo, [...byName.values()]);
    await migrate(mongo, silent, { isProbed: true });
    t.strictSame(await schemaFaults(mongo), []);
  });
}

t.test('a migration names the index that prevents a declared one', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  await mongo.db.collection('operator_audit').createIndex({ reason: 1 }, { name: 'in_pages' });
  const refused: unknown = await migrate(mongo, silent, { isProbed: true }).catch((error: unknown) => error);
  t.type(refused, IndexConflict);
  t.match(refused, {
    message: /^an index of operator_audit prevents a declared one: drop it and run .*MongoDB: .*in_pages/,
  });
});
