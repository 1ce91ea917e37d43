import t from 'tap';
import { noteSlowedAddress } from '#infra/mongo/auth/login-events.ts';
import { clusterHash } from '#infra/mongo/cluster-key.ts';
import { WORKERS, type WorkerRow } from '#infra/mongo/live-workers.ts';
import { COMMANDS } from '#infra/mongo/mailbox/commands.ts';
import { readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { OPERATOR_AUDIT } from '#infra/mongo/operator-audit.ts';
import { migrate } from '#infra/mongo/schema/migrate.ts';
import { openKeyedHash } from '#infra/net/keyed-hash.ts';
import type { Command } from '#shared/kernel/command.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { testConfig, testKernel, testWorkerDeps, withStep } from '#testing/actors/test-kernel.ts';
import { callExamhall, runExamhall } from '#testing/processes/run-examhall.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { workerRow } from '#testing/stored/stored-commands.ts';
import { postDelivery } from '#testing/stored/stored-notifications.ts';
import { openTestMongo, requiredEnv } from '#testing/stores/open-test-mongo.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { runCommand } from '#workers/run-command.ts';

const mongo = await openTestMongo(t);
const grading = makeActor('grading', testWorkerDeps(mongo));

const examhall = (...args: string[]) => callExamhall(mongo, args);
/** Runs the command as a process. */
const started = (...args: string[]) => runExamhall(mongo, args);

async function deadGrading(cause: string): Promise<Command> {
  const command = await postGrading(mongo, await storeAttempt(mongo, SUBMITTED), { maxAttempts: 1 });
  const failing = withStep(grading, () => Promise.reject(new Error(cause)));
  t.equal(await runCommand(testKernel(mongo), failing, command), 'dead');
  return command;
}

const replayed = async () => mongo.db.collection(OPERATOR_AUDIT).find({}).toArray();

t.test('examhall dead lists dead letters, replays each once and audits the replay', async (t) => {
  const [one, other] = [await deadGrading('the disk is full'), await deadGrading('the moon is full')];
  const [first, second] = [one._id, other._id];

  const list = await started('dead', 'list');
  t.equal(list.code, 0);
  t.match(list.said, /1 +0 +grading +Error: the disk is full/);
  const each = await examhall('dead', 'list', '--each', '--limit', '1');
  t.match(each, {
    code: 0,
    err: '',
    out: new RegExp(`^died +queue +id +subject +mark +cause\n.* ${first} +${one.subject} +- +Error: the disk`),
  });
  const cursor = /^more follow: pass --cursor (\S+)$/m.exec(each.out)?.[1] ?? '';
  t.match((await examhall('dead', 'list', '--each', '--cursor', cursor)).out, second);
  const { groups } = JSON.parse((await examhall('dead', 'list', '--json')).said);
  t.match(groups, [{ count: 1 }, { count: 1 }]);
  const shown = await examhall('dead', 'show', first);
  t.match(JSON.parse(shown.said), { _id: first, status: 'DEAD', attempts: 1, lastError: { message: String } });

  const dry = await examhall('dead', 'replay', first, '--reason', 'disk was cleared');
  t.equal(dry.code, 0);
  t.match(dry.out, /^dry run: 1 dead command would be replayed; pass --yes to replay it\n/);
  t.equal(dry.err, '');
  t.match(await readCommand(mongo, one), { status: 'DEAD' }, 'without --yes nothing happens');
  t.strictSame(await replayed(), []);

  const done = await examhall('dead', 'replay', first, '--reason', 'disk was cleared', '--operator', 'binh', '--yes');
  t.equal(done.code, 0, done.said);
  t.match(await readCommand(mongo, one), { status: 'PENDING', attempts: 0, replays: 1 });
  t.match(await readCommand(mongo, other), { status: 'DEAD' }, 'the other command stays dead');
  t.match(await replayed(), [{ commandId: first, operator: 'binh', reason: 'disk was cleared' }]);
  t.equal(await runCommand(testKernel(mongo), grading, one), 'done', 'a worker claims it');

  const again = await started('dead', 'replay', first, '--reason', 'disk was cleared', '--yes');
  t.equal(again.code, 1);
  t.match(again.out, /skipped: not dead/);
  const bulk = [
    'dead',
    'replay',
    '--queue',
    'grading',
    '--cause',
    'Error: the moon is full',
    '--reason',
    'it is waning',
  ];
  t.match((await examhall(...bulk, '--yes')).said, /1 of 1 replayed/);
  t.match(await replayed(), [{ operator: 'binh' }, { commandId: second, operator: 'an' }]);
  t.match((await examhall('audit')).said, /an +dead\.replay +grading +\S+ +it is waning/);
});

t.test('examhall dead ack and dead drop mark letters, audited, and only with --yes', async (t) => {
  const [one, other] = [await deadGrading('the printer is on fire'), await deadGrading('the printer is on fire')];
  const cause = ['--cause', 'Error: the printer is on fire'];
  const why = ['--reason', 'ticket 4711'];
  const dry = await examhall('dead', 'ack', one._id, ...why);
  t.match(dry, { code: 0, out: /^dry run: 1 dead command would be acknowledged; pass --yes to acknowledge it\n/ });
  t.match(await examhall('dead', 'ack', one._id, ...why, '--yes'), { code: 0, out: /1 of 1 acknowledged/ });
  t.match(await examhall('dead', 'ack', one._id, ...why, '--yes'), {
    code: 1,
    out: /skipped: not dead, or already ack/,
  });
  t.match(await examhall('dead', 'list', ...cause), { code: 0, out: /^2 +1 +grading/m });
  const listed = async (...args: string[]) =>
    JSON.parse((await examhall('dead', 'list', ...cause, '--json', ...args)).out).groups;
  t.match(await listed('--subject', other.subject, '--since', '1h'), [{ count: 1, acknowledged: 0 }]);
  t.strictSame(await listed('--until', '1h'), []);
  const rest = await examhall('dead', 'ack', ...cause, ...why, '--limit', '1', '--yes', '--json');
  t.match(JSON.parse(rest.out).rows, [{ id: other._id, outcome: 'done' }], 'an acknowledged letter takes no place');
  const dropped = await examhall('dead', 'drop', ...cause, ...why, '--yes', '--json');
  t.match(JSON.parse(dropped.out), { dryRun: false, rows: [{ outcome: 'done' }, { outcome: 'done' }] });
  t.strictSame(await listed(), []);
  t.match(await listed('--dropped'), [{ count: 2 }]);
  t.match(await examhall('dead', 'replay', one._id, ...why, '--yes'), { code: 1, out: /skipped: not dead/ });
  t.match((await examhall('audit', '--limit', '3')).out, /dead\.drop +grading +\S+ +ticket 4711/);
});

t.test('examhall dead show names the delivery state of a dead delivery, and replay runs it again', async (t) => {
  const job = await postDelivery(mongo, { channel: 'log', maxAttempts: 1 });
  const deps = testWorkerDeps(mongo, { NOTIFICATION_CHANNELS: 'log' });
  const failing = withStep(makeActor('delivery', deps), () => Promise.reject(new Error('the log is full')));
  t.equal(await runCommand(testKernel(mongo), failing, job), 'dead');
  t.match(
    (await examhall('dead', 'list', '--queue', 'delivery:log')).said,
    /1 +0 +delivery:log +Error: the log is full/,
  );
  const shown = async () => JSON.parse((await examhall('dead', 'show', job._id)).said);
  t.match(await shown(), { _id: job._id, status: 'DEAD', state: 'DEAD_LETTERED' });
  const replay = ['dead', 'replay', '--queue', 'delivery:log', '--reason', 'there is room again', '--yes'];
  t.equal((await examhall(...replay)).code, 0);
  t.match(await shown(), { state: 'PENDING' });
  t.equal(await runCommand(testKernel(mongo), makeActor('delivery', deps), job), 'done');
  t.match(await shown(), { state: 'SENT' });
  t.equal((await examhall(...replay)).code, 1, 'once per death');
});

t.test('examhall audit verify prints the head of the chain, and fails once a row was changed', async (t) => {
  const command = await deadGrading('for the audit');
  const { _id: id } = command;
  t.equal((await examhall('dead', 'replay', id, '--reason', 'to verify it', '--yes')).code, 0);
  t.equal(await runCommand(testKernel(mongo), grading, command), 'done');
  const intact = await examhall('audit', 'verify');
  t.match(intact, {
    code: 0,
    err: '',
    out: /^rows 1 to (\d+) are in order\nhead, to be noted [^:]+: \1:[0-9a-f]{64}\n$/,
  });
  const head = intact.out.trim().split(' ').at(-1) ?? '';
  t.match(await examhall('audit', 'verify', '--from', head), { code: 0, err: '' });
  const { head: asJson } = JSON.parse((await examhall('audit', 'verify', '--json')).out);
  t.equal(`${asJson.seq}:${asJson.hash}`, head);

  await mongo.db.collection(OPERATOR_AUDIT).updateOne({ commandId: id }, { $set: { operator: 'somebody-else' } });
  t.match(await examhall('audit', 'verify'), { code: 1, err: /^error: row \d+ was altered/ });
  t.match(await examhall('audit', 'verify', '--from', head), { code: 1, err: /^error: row \d+ was altered/ });
});

t.test('examhall events lists security events of all accounts, or those of one address', async (t) => {
  const hash = openKeyedHash(testConfig().auth.jwt.secret);
  const at = Date.now();
  for (const [n, address] of ['203.0.113.7', '203.0.113.8', '203.0.113.7'].entries()) {
    await noteSlowedAddress(mongo, { address: hash('address', address), spacingMs: 1_000 }, at + n * HOUR);
  }
  const all = await examhall('events');
  t.match(all, {
    code: 0,
    err: '',
    out: /^at +event +account +session +detail\n(.* ADDRESS_SLOWED +- +- +\{.*\}\n){3}$/,
  });
  t.notMatch(all.said, '203.0.113');
  const one = await examhall('events', '--address', '203.0.113.7', '--json');
  t.equal(one.err, `hash of the address: ${hash('address', '203.0.113.7')}\n`);
  t.equal(JSON.parse(one.out).length, 2);
  const env = { NODE_ENV: 'production', REDIS_URL: requiredEnv('REDIS_URL') };
  t.match(
    await callExamhall(mongo, ['events', '--limit', '1'], { env }),
    { code: 0 },
    'only an address needs a secret',
  );
  const keyless = await callExamhall(mongo, ['events', '--address', '203.0.113.7'], { env });
  t.match(keyless, { code: 2, out: '', err: /^error: --address needs AUTH_JWT_SECRET/ });
});

t.test('examhall status names each alarm and what to do, and ends with 1 until it is over', async (t) => {
  const quiet = await openTestMongo(t, { empty: true });
  await migrate(quiet, () => undefined, { isProbed: true });
  const env = { REDIS_URL: requiredEnv('REDIS_URL') };
  const status = (...args: string[]) => callExamhall(quiet, ['status', ...args], { env });
  t.match(await status(), { code: 0, out: 'all is well\n0 live worker processes, 0 commands running, 0 due\n' });
  const command = await postGrading(quiet, await storeAttempt(quiet, SUBMITTED), { maxAttempts: 1 });
  t.match(await status(), {
    code: 1,
    out: /^1 alarm\n {2}grading: 1 due, the oldest for \d+ s, and no live worker: scale `grading`\n/,
  });
  const failing = withStep(grading, () => Promise.reject(new Error('the disk is full')));
  t.equal(await runCommand(testKernel(quiet), failing, command), 'dead');
  const told = await status('--json');
  t.match(JSON.parse(told.out), { well: false, alarms: [{ kind: 'dead-letters', text: 'grading: 1 dead letter' }] });
  t.equal(told.code, 1);
  await quiet.db.collection(COMMANDS).deleteMany({ status: 'DEAD' });
  t.match(await status(), { code: 0, out: /^all is well\n/ });
  const unserving = workerRow('delivery', { queues: [], seenAt: new Date(Date.now() + 60_000) });
  await quiet.db.collection<WorkerRow>(WORKERS).insertOne(unserving);
  await postDelivery(quiet, { channel: 'email' });
  const note = 'delivery:email: 1 waiting, because the channel `email` is not configured: set `NOTIFICATION_CHANNELS`';
  t.match(await status(), { code: 0, out: `no alarm, 1 note\n  note: ${note}\n1 live worker processes` });
  const away = await callExamhall(quiet, ['status'], { env: { REDIS_URL: 'redis://127.0.0.1:1' } });
  t.match(away, { code: 1, out: /^1 alarm, 1 note\n {2}Redis does not answer/ });
});

t.test('examhall status in a database without an index of this version names the cure', async (t) => {
  const old = await openTestMongo(t, { empty: true });
  await migrate(old, () => undefined, { isProbed: true });
  await postGrading(old, await storeAttempt(old, SUBMITTED));
  await old.db.collection(COMMANDS).dropIndex('dead_letters');
  t.match(await callExamhall(old, ['status'], { env: { REDIS_URL: requiredEnv('REDIS_URL') } }), {
    code: 1,
    out: '',
    err: 'error: MongoDB lacks an index that this version names: run `examhall migrate`\n',
  });
});

t.test('examhall hash prints the hashes under which the logs and the audit name a person', async (t) => {
  const hash = await clusterHash(mongo);
  t.match(await examhall('hash', 'student-7'), {
    code: 0,
    out: `actor    ${hash('actor', 'student-7')}\nsubject  ${hash('person', 'student-7')}\n`,
    err: '',
  });
});

t.test('examhall --watch prints again until it is interrupted', async (t) => {
  const interrupt = new AbortController();
  const watching = callExamhall(mongo, ['queues', '--watch', '0.1'], {
    interrupted: interrupt.signal,
    heard: (out) => out.split('queue ').length > 3 && interrupt.abort(),
  });
  const told = await watching;
  t.match(told, { code: 0, err: '' });
  t.notMatch(told.out, '\u001B', 'no escape sequences outside a terminal');
});

t.test('examhall completes commands and options in a shell', async (t) => {
  t.match(await started('complete', '--', 'dead', 'rep'), { code: 0, out: /^replay\treplay dead commands/ });
  t.match(await started('complete', '--', 'migrate', '--sh'), { code: 0, out: /^--shard\t/m });
  t.match(await started('completion', 'fish'), { code: 0, out: /complete -c examhall/ });
});

t.test('examhall refuses invalid arguments with `error: …` on stderr and changes nothing', async (t) => {
  const command = await deadGrading('again');
  const { _id: id } = command;
  const before = (await replayed()).length;
  for (const [args, code, says] of [
    [['dead', 'replay', id, '--yes'], 2, /--reason/],
    [['dead', 'replay', '--reason', 'no id, no queue', '--yes'], 2, /pass command ids or a filter/],
    [['dead', 'replay', '--queue', 'grading', '--reason', 'long enough', '--limit', '0', '--yes'], 2, /--limit/],
    [['dead', 'list', '--since', 'yesterday'], 2, /--since and --until must be a time/],
    [['dead', 'list', '--limit', '5'], 2, /--limit and --cursor are for --each/],
    [['dead', 'list', '--each', '--cursor', 'x'], 2, /--cursor must be/],
    [['dead', 'drop', id, '--queue', 'grading', '--reason', 'both of them'], 2, /not both/],
    [['dead', 'show'], 2, /missing required argument 'id'/],
    [['dead', 'show', 'unknown', '--json'], 1, /no command with id unknown/],
    [['dead', 'lsit'], 2, /unknown command 'lsit'\n\(Did you mean list\?\)/],
    [['dead', 'list', '--colour'], 2, /colour/],
    [['dead', 'list', '--queue', 'nope', '--json'], 2, /'nope' is invalid. Allowed choices are grading/],
    [['dead', 'replay', '--queue', 'nope', '--reason', 'long enough', '--yes'], 2, /Allowed choices are grading/],
    [['audit', '--limit', 'x'], 2, /--limit must be a whole number/],
    [['audit', 'verify', '--from', '7'], 2, /--from must be SEQ:HASH/],
    [['audit', 'check'], 2, /too many arguments for 'list'/],
    [['events', '--address', '203.0.113'], 2, /--address must be/],
    [['quue'], 2, /unknown command 'quue'\n\(Did you mean queues\?\)/],
    [['migrate', '--dryrun'], 2, /unknown option '--dryrun'\n\(Did you mean --dry-run\?\)/],
    [['queues', '--yes'], 2, /unknown option '--yes'/],
    [['status', '--watch', '0'], 2, /--watch must be/],
  ] as const) {
    const told = await examhall(...args);
    t.equal(told.code, code, args.join(' '));
    t.match(told.err, says);
    t.match(told.err, /^error: /);
    t.equal(told.out, '', args.join(' '));
  }
  const absent = await started('dead', 'replay', 'unknown', '--reason', 'long enough', '--yes');
  t.match(absent, { code: 1, out: '0 of 0 replayed\n', err: 'error: no command with id unknown\n' });
  t.match(await started(), { code: 2, out: '', err: /^Usage: examhall <command>/ });
  t.match(await started('--help'), { code: 0, out: /^Usage: examhall <command>/, err: '' });
  t.match(await readCommand(mongo, command), { status: 'DEAD' });
  t.equal((await replayed()).length, before);
});

t.test('examhall reports an unreachable MongoDB in one line on stderr, without a stack', async (t) => {
  const env = { MONGODB_URL: 'mongodb://root:hunter2@127.0.0.1:1/' };
  const told = await runExamhall(mongo, ['queues'], { env });
  t.match(told, { code: 1, out: '', err: 'error: MongoDB does not answer: connect ECONNREFUSED 127.0.0.1:1\n' });
});

t.test('examhall queues and workers print the depth of each queue and the live workers', async (t) => {
  const { said, code } = await examhall('queues');
  t.equal(code, 0);
  t.match(said, /^queue +waiting +due +running +dead +acknowledged +oldest due +workers$/m);
  t.match(said, /grading +1 +1 +0 +1 +\d+ /);

  const workers = mongo.db.collection<WorkerRow>(WORKERS);
  const unanswering = [{ name: 'profile', since: new Date(), lastAt: new Date() }];
  const row = { host: 'h', version: '1.2.3', busy: ['c'], rssBytes: 5e7, unanswering };
  await workers.insertMany([
    workerRow('grading', { ...row, _id: 'alive', pid: 4711 }),
    workerRow('grading', { ...row, _id: 'killed', pid: 666, seenAt: new Date(Date.now() - 60_000) }),
  ]);
  const shown = (await examhall('workers')).said;
  t.match(shown, /actor +host +pid/);
  t.match(shown, /grading +h +4711 +1\/8 +50 MB +\d+ s ago +1\.2\.3 +profile +c$/m);
  t.notMatch(shown, '666', 'a killed process is not listed');
  t.match(JSON.parse((await examhall('workers', '--json')).said), { workers: [{ id: 'alive' }] });
});
