import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { generations } from '#infra/mongo/classifier/collections.ts';
import { openGeneration } from '#infra/mongo/classifier/generation-epochs.ts';
import { readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { INVARIANTS } from '#infra/mongo/operations/invariants.ts';
import { BEHAVIOURS } from '#infra/mongo/probe/probe.ts';
import { migrate, SCHEMA_VERSION } from '#infra/mongo/schema/migrate.ts';
import type { OwedGeneration } from '#shared/classifier/generation.ts';
import type { Command } from '#shared/kernel/command.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { attemptClient, choice } from '#testing/clients/attempt-client.ts';
import { openFakeOwners } from '#testing/neighbours/fake-owners.ts';
import { startCluster, TOKENS } from '#testing/processes/cluster.ts';
import { callExamhall, runExamhall } from '#testing/processes/run-examhall.ts';
import { SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { ageGeneration, generationOf, postSettlement } from '#testing/stored/stored-model-work.ts';
import { type Flaw, openFlawedMongo } from '#testing/stores/flawed-mongo.ts';
import { openTestMongo, requiredEnv } from '#testing/stores/open-test-mongo.ts';
import { until } from '#testing/until.ts';
import { runCommand } from '#workers/run-command.ts';
import { settlementActor } from '#workers/settlement/actor.ts';

const MIGRATE = path.resolve(import.meta.dirname, '../migrate.ts');
const IGNORES_KILLS: Flaw = { command: (command) => (command.killSessions === undefined ? undefined : { ok: 1 }) };

const mongo = await openTestMongo(t);
const owners = await openFakeOwners(t);

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
  const guide = readFileSync(path.resolve(import.meta.dirname, '../../docs/operating.md'), 'utf8');
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
const actor = settlementActor(testWorkerDeps(mongo, { ...owners.env, AI_GENERATION_SETTLEMENT_WORKER_ENABLED: '1' }));
const run = (command: Command) => runCommand(testKernel(mongo), actor, command);
const examhall = (...args: string[]) => callExamhall(mongo, args);

/** Stores a dead settlement whose answer is older than a day. Returns it with its generation. */
async function deadSettlement() {
  const command = await postSettlement(mongo);
  await ageGeneration(mongo, command.subject);
  t.equal(await run(command), 'dead');
  return { command, id: command._id, row: (await generationOf(mongo, command)) as OwedGeneration };
}

t.test('examhall dead replay charges a superseded answer only with --charge-superseded', async (t) => {
  const [plain, superseded] = [await deadSettlement(), await deadSettlement()];
  const { key, organizationId, actor: by } = superseded.row;
  const newer = { _id: 'newer', key, epoch: 2, organizationId, actor: by, now: Date.now(), leaseMs: 60_000 };
  t.match(await openGeneration(mongo, newer, superseded.row), { kind: 'held' });
  const { id } = superseded;

  const shown = await examhall('dead', 'show', id);
  t.match(JSON.parse(shown.out), { _id: id, superseded: true });
  t.match(shown.err, /^warning: superseded: an equal request was charged anew/);
  const other = await examhall('dead', 'show', plain.id);
  t.notMatch(JSON.parse(other.out), { superseded: Boolean });
  t.equal(other.err, '');

  const all = ['dead', 'replay', '--queue', 'settlement', '--reason', 'the wallet is back'];
  const dry = await examhall(...all);
  t.match(dry.out, /^dry run: 1 dead command would be replayed; pass --yes to replay it\n/);
  t.match(dry.out, new RegExp(`  ${id}  settlement  .*  skipped: superseded: .*; pass --charge-superseded`));
  t.notMatch(dry.out, new RegExp(`${plain.id}.*superseded`));

  const done = await examhall(...all, '--yes');
  t.equal(done.code, 1, 'not all were replayed');
  t.match(done.out, new RegExp(`${plain.id}  replayed`));
  t.match(done.out, new RegExp(`${id}  skipped: superseded`));
  t.match(await readCommand(mongo, superseded.command), { status: 'DEAD', replays: 0 });
  t.equal(await run(plain.command), 'done');

  const one = ['dead', 'replay', id, '--reason', 'agreed with the school', '--charge-superseded'];
  t.match((await examhall(...one)).out, new RegExp(`dry run: 1 .*\\n  ${id}  .*  superseded: charges an answer`));
  t.equal((await examhall(...one, '--yes')).code, 0);
  t.equal(await run(superseded.command), 'done');
  t.match(await generations(mongo).findOne({ _id: superseded.row._id }), { state: 'SETTLED' });
  t.equal(owners.ledger.debits.size, 2);
});

t.test(
  'one trace follows an attempt from a missing worker to a muted student, over HTTP and in the tool',
  async (t) => {
    const cluster = await startCluster(t, {
      workers: ['gradenotices', 'upkeep'],
      asleep: ['grading'],
      ownNotifications: true,
      env: { ATTEMPT_GRADING_WAIT_MS: '100' },
    });
    const client = await attemptClient(cluster);
    const { student, id } = await client.sitting({ questions: [choice('q1')] });
    const muted = await client.call('PATCH', '/v1/notifications/preferences', {
      headers: { 'x-actor-id': student.id, 'x-actor-role': 'STUDENT' },
      body: { mutedUntil: '2099-01-01T00:00:00Z' },
    });
    t.equal(muted.status, 200);
    t.equal((await student.submit(id)).status, 202);

    const read = (query: string, headers: Record<string, string> = { authorization: `Bearer ${TOKENS.ops}` }) =>
      client.call('GET', `/v1/ops/trace?${query}`, { headers });
    const place = { url: cluster.env.MONGODB_URL ?? requiredEnv('MONGODB_URL'), database: cluster.mongo.databaseName };
    const told = async (wanted: string) => {
      const env = { REDIS_URL: cluster.env.REDIS_URL };
      const { out, code } = await callExamhall(place, ['trace', wanted], { env });
      t.equal(code, 0);
      return out.split('\n').slice(1, 5).join('\n');
    };
    t.match((await read(`id=${id}`)).data, { subject: 'attempt', verdicts: [{ code: 'NO_WORKER', count: 1 }] });
    t.match(
      await told(id),
      /^stuck: not graded: no live `grading` worker; 1 command due since \d+ s; scale `grading`$/m,
    );
    for (const role of ['STUDENT', 'TEACHER'])
      t.equal((await read(`id=${id}`, { 'x-user-id': student.id, 'x-user-role': role })).status, 403, role);

    await cluster.start('grading');
    const whole = await until('both notices are delivered, and analytics has its report', async () => {
      const { lines, verdicts } = (await read(`id=${id}`)).data;
      const delivered = lines.filter(
        (line: { kind: string; state: string }) => line.kind === 'notice' && line.state === 'DELIVERED',
      );
      const isOver = verdicts.every(({ standing }: { standing: string }) => standing !== 'runs');
      return delivered.length === 2 && isOver && { lines, verdicts };
    });
    t.match(whole.verdicts, [
      { standing: 'dropped', code: 'MUTED', text: 'not notified: the user has muted notifications' },
    ]);
    const kinds = new Set(whole.lines.map(({ kind }: { kind: string }) => kind));
    for (const kind of ['attempt', 'event', 'command', 'notice', 'notification-event', 'suppression', 'notification'])
      t.ok(kinds.has(kind), kind);
    t.match(await told(`user:${student.id}`), /not notified: the user has muted notifications/);
    const asAdmin = { 'x-user-id': 'admin-1', 'x-user-role': 'ADMIN' };
    const [first] = (await read(`student=${student.id}`, asAdmin)).data.lines;
    t.match(first, { kind: 'attempt', id, state: 'GRADED' });
    t.match(await read('id=unknown'), { status: 404, json: { code: 'TRACE_NOT_FOUND' } });
  },
);
