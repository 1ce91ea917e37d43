import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { INVARIANTS } from '#infra/mongo/operations/invariants.ts';
import { BEHAVIOURS } from '#infra/mongo/probe/probe.ts';
import { migrate, SCHEMA_VERSION } from '#infra/mongo/schema/migrate.ts';
import { callExamhall, runExamhall } from '#testing/processes/run-examhall.ts';
import { SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { type Flaw, openFlawedMongo } from '#testing/stores/flawed-mongo.ts';
import { openTestMongo, requiredEnv } from '#testing/stores/open-test-mongo.ts';

const MIGRATE = path.resolve(import.meta.dirname, 'migrate.ts');
const IGNORES_KILLS: Flaw = { command: (command) => (command.killSessions === undefined ? undefined : { ok: 1 }) };

t.test('examhall doctor and release accept a server that has every required behaviour', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  const before = await callExamhall(mongo, ['doctor']);
  t.equal(before.code, 1);
  t.match(before.said, /missing {2}schema: the schema is at version 0/);
  await runMigrate(mongo, mongo.url);
  const env = { REDIS_URL: requiredEnv('REDIS_URL') };
  const after = await runExamhall(mongo, ['doctor'], { env });
  t.match(await callExamhall(mongo, ['doctor']), { code: 1, out: /^missing {2}Redis: it does not answer/m });
  t.equal(after.code, 0, after.said);
  const lines = after.said.trimEnd().split('\n');
  t.match(lines.shift(), /^MongoDB \d.*, (replica set|sharded cluster)/);
  const clock = /MongoDB is \d+ ms (ahead of|behind) this/;
  t.strictSame(
    lines.map((line) => line.replace(clock, 'MongoDB is N ms DIRECTION this').replace(/Redis \d\S*,/, 'Redis 7.2.4,')),
    [
      ...BEHAVIOURS.map(({ name }) => `ok       ${name}`),
      `ok       schema: complete for version ${SCHEMA_VERSION}`,
      'ok       Redis 7.2.4, noeviction',
      'ok       clock: MongoDB is N ms DIRECTION this machine',
      'ok       versions: no live worker',
      ...INVARIANTS.map(({ name }) => `ok       ${name} (0 read)`),
    ],
  );
});

t.test('examhall doctor names a broken promise with an example and ends with 1', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  await migrate(mongo, () => undefined, { isProbed: true });
  const { _id } = await storeAttempt(mongo, SUBMITTED);
  const told = await callExamhall(mongo, ['doctor'], { env: { REDIS_URL: requiredEnv('REDIS_URL') } });
  t.equal(told.code, 1);
  const [line, ...others] = told.out
    .split('\n')
    .filter((text) => !text.startsWith('ok ') && !/^MongoDB |^$/.test(text));
  t.strictSame(others, []);
  t.match(line, `broken   a submitted attempt has a grading command (1 read): 1 broken, such as ${_id}. restore`);
});

t.test('the guide lists every promise that doctor checks', async (t) => {
  const guide = readFileSync(path.resolve(import.meta.dirname, '../docs/operating.md'), 'utf8');
  for (const { name } of INVARIANTS) t.ok(guide.includes(`| ${name} `), name);
});

t.test('examhall doctor and release name a missing behaviour and its consequence, without a stack', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  const url = await openFlawedMongo(t, mongo.url, IGNORES_KILLS);
  const told = await runExamhall(mongo, ['doctor'], { env: { MONGODB_URL: url } });
  t.equal(told.code, 1);
  t.match(
    told.said,
    /missing {2}ended sessions: after killSessions, .*\. Documents in the open transaction of a killed worker/,
  );
  t.match(told.said, /ok {7}majority writes/);
  const { findings, schema } = JSON.parse(
    (await callExamhall(mongo, ['doctor', '--json'], { env: { MONGODB_URL: url } })).said,
  );
  t.match(
    findings.filter(({ fault }: { fault: unknown }) => fault !== null),
    [{ name: 'ended sessions' }],
  );
  t.equal(schema.length, 1);

  const refused = await t.rejects(runMigrate(mongo, url));
  t.match(refused, { code: 1, stderr: /^error: this server .* lacks 1 of \d+ behaviours/ });
  t.notMatch(refused, { stderr: /\n +at / }, 'no stack');
  t.notMatch(refused, { stderr: new RegExp(new URL(url).host) }, 'no address');
  t.strictSame(await mongo.db.listCollections().toArray(), []);
});

t.test('release refuses arguments, because an ignored `--dry-run` would migrate', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  const refused = await t.rejects(runMigrate(mongo, mongo.url, '--dry-run'));
  t.match(refused, { code: 2, stderr: /^error: unknown argument --dry-run/ });
  t.strictSame(await mongo.db.listCollections().toArray(), []);
});

/** Runs `release` as the Procfile does. @throws with `code` and `stderr` */
function runMigrate({ database }: { database: string }, url: string, ...args: string[]) {
  const env = { PATH: process.env.PATH, MONGODB_URL: url, MONGODB_DATABASE: database };
  return promisify(execFile)(process.execPath, [MIGRATE, ...args], { env });
}

t.test('examhall migrate prepares a database, and --shard shows a plan with lines for a router alone', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  const status = await callExamhall(mongo, ['migrate', '--status']);
  t.match(status, { code: 1, out: new RegExp(`^schema is at version 0; this code needs ${SCHEMA_VERSION}\n`) });
  const dry = await callExamhall(mongo, ['migrate', '--dry-run']);
  t.match(dry, {
    code: 0,
    out: /^dry run: nothing was changed\nwould migrate to 9: .*\n(.*\n)*would create the index attempts\.start_key/,
  });
  t.strictSame(await mongo.db.listCollections().toArray(), []);
  t.match(await callExamhall(mongo, ['migrate', '--status', '--dry-run']), { code: 2, err: /only one of/ });
  const migrated = await callExamhall(mongo, ['migrate', '--json']);
  t.match(JSON.parse(migrated.out), { from: 0, to: SCHEMA_VERSION });

  t.match(await callExamhall(mongo, ['migrate', '--status']), { code: 0, err: '' });
  t.match(await callExamhall(mongo, ['migrate', '--dry-run']), {
    code: 0,
    out: 'dry run: nothing was changed\nnothing to do\n',
  });
  const plan = await callExamhall(mongo, ['migrate', '--shard']);
  t.match(plan, { code: 1, err: 'error: this server is no router (mongos) of a sharded cluster\n' });
  t.match(plan.out, /^attempts +studentId +0 +to be sharded$/m);
  t.notMatch(plan.out, /mongosh|shardCollection/);
  t.match(await callExamhall(mongo, ['migrate', '--shard', '--yes']), { code: 2, out: '' });
  t.match(await callExamhall(mongo, ['migrate', 'now']), { code: 2, err: /^error: too many arguments for 'migrate'/ });
});
