import t from 'tap';
import { openMongo } from '#infra/mongo/connect.ts';
import { BEHAVIOURS, UnfitServer } from '#infra/mongo/probe/probe.ts';
import { schemaState } from '#infra/mongo/schema-state.ts';
import { openFlawedMongo } from '#testing/stores/flawed-mongo.ts';
import { nameOf } from '#testing/stores/flaws.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { migrate, SCHEMA_VERSION, schemaFaults } from './migrate.ts';

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

t.test('a migration on an unfit server throws UnfitServer and changes nothing', async (t) => {
  const real = await openTestMongo(t, { empty: true });
  const url = await openFlawedMongo(t, real.url, {
    command(command) {
      // Some servers that only implement the protocol lack pipelines in updates. The migration could not even take its lease there.
      const [update] = command.updates ?? [];
      const isPipeline = Array.isArray(command.update) || Array.isArray(update?.u);
      return isPipeline ? { ok: 0, code: 9, errmsg: 'update pipelines are not supported' } : undefined;
    },
  });
  const mongo = openMongo({ url, database: real.database, appName: 'examhall-test' });
  t.teardown(() => mongo.close());
  const error = await t.rejects(migrate(mongo, () => undefined));
  t.type(error, UnfitServer);
  t.match(error, { message: /guarded updates: it is refused with "update pipelines are not supported"/ });
  t.strictSame(await real.db.listCollections().toArray(), []);
});

t.test('a migration is refused if the server has passed a probe before but lacks a behaviour now', async (t) => {
  const real = await openTestMongo(t, { empty: true });
  await migrate(real, () => undefined, { isProbed: true });
  const url = await openFlawedMongo(t, real.url, {
    command: (command) => (nameOf(command) === 'killSessions' ? { ok: 1 } : undefined),
  });
  const mongo = openMongo({ url, database: real.database, appName: 'examhall-test' });
  t.teardown(() => mongo.close());
  await t.rejects(
    migrate(mongo, () => undefined),
    { message: /ended sessions: after killSessions/ },
  );
  t.match(await schemaState(real).findOne({}), { version: SCHEMA_VERSION, runner: null, passed: undefined });
});
