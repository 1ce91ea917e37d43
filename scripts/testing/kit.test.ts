import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readlinkSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { MAILBOXES } from '#infra/mongo/mailbox/commands.ts';
import { BASELINE } from '#infra/mongo/schema/migrate.ts';
import type { Placement } from '#infra/mongo/schema/shard-keys.ts';
import { openReceiver } from '#scripts/sandbox/local-server.ts';
import { isExcepted, SHARD_EXCEPTIONS } from '#testing/stores/shard-rule.ts';
import { until } from '#testing/until.ts';
import { beginLife, type Traffic } from './processes/life.ts';
import { chooseRelease, unpackRelease } from './rolling/earlier-release.ts';
import { faultsOf } from './stores/shard-rule.ts';

const traffic: Traffic = { command: (_, send) => send(), fetch: (call) => call() };

t.test('the end of a life cuts its sockets and calls and stops its timers, and no other life notices', async (t) => {
  const greeted = new Map<string, Socket>();
  const server = createServer((socket) => {
    socket.on('error', () => undefined).once('data', (name) => greeted.set(String(name), socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    for (const socket of greeted.values()) socket.destroy();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const called: string[] = [];
  const url = await openReceiver(t, ({ path }, response) => {
    called.push(path);
    if (path !== '/hangs') response.end();
  });

  const noticed: string[] = [];
  const ticks = { dead: 0, alive: 0 };
  /** Dials, calls, pauses and ticks, as the code of a process does. */
  const live = (name: 'dead' | 'alive') => () => {
    const socket = connect(port, '127.0.0.1');
    socket.on('close', () => noticed.push(`${name}: closed`)).write(name);
    const ticking = setInterval(() => {
      ticks[name] += 1;
    }, 1);
    t.teardown(() => clearInterval(ticking));
    const notice = () => noticed.push(`${name}: settled`);
    void fetch(`${url}/hangs`).then(notice, notice);
    void delay(60_000, null, { ref: false }).then(notice, notice);
  };
  const [dead, alive] = [beginLife(traffic), beginLife(traffic)];
  dead.live(live('dead'));
  alive.live(live('alive'));
  await until('both have greeted', () => greeted.size === 2 && called.length === 2);
  await until('both tick', () => ticks.dead > 0 && ticks.alive > 0);

  dead.end();
  await until('its socket is cut', () => greeted.get('dead')?.destroyed);
  const { dead: ticksAtEnd, alive: ticksBefore } = { ...ticks };
  dead.live(() => {
    connect(port, '127.0.0.1').write('from the dead');
    void fetch(`${url}/from-the-dead`);
    setTimeout(() => noticed.push('dead: woken'), 0);
  });
  // The other life dials and calls after the dead one, and is served.
  await alive.live(async () => {
    connect(port, '127.0.0.1').write('later');
    await fetch(`${url}/later`);
    await delay(1);
  });
  await until('the other life goes on', () => greeted.has('later') && ticks.alive > ticksBefore);

  t.strictSame([...greeted.keys()].sort(), ['alive', 'dead', 'later']);
  t.strictSame(called, ['/hangs', '/hangs', '/later']);
  t.equal(ticks.dead, ticksAtEnd, 'no timer fires');
  t.strictSame(noticed, [], 'the dead life notices nothing');
  alive.end();
});

const PLACEMENTS: Record<string, Placement> = {
  attempts: { shardKey: ['studentId'] },
  seats: { shardKey: ['linkId', 'seat'] },
  accounts: { rows: 9, why: 'it is small' },
};

const REFUSED = 'is a write that MongoDB 7 refuses';
const EVERY = 'goes to every shard';
const IN_TURN = 'is part of an ordered batch over several shards';
const reaches = (command: string, sent: object) => faultsOf(command, sent, PLACEMENTS).map(({ fault }) => fault);
const find = (filter: object, find = 'attempts') => reaches('find', { find, filter });

t.test('a filter that names the shard key reaches one shard, a list of values a few', (t) => {
  t.same(find({ _id: 'a', studentId: 's' }), []);
  t.same(find({ studentId: { $eq: 's' }, status: { $ne: 'GRADED' } }), []);
  t.same(find({ $and: [{ _id: 'a' }, { studentId: 's' }] }), []);
  t.same(find({ studentId: { $in: ['s', 't'] } }), []);
  t.same(find({ studentId: { $in: ['s'] } }), []);
  t.same(find({ linkId: 'l', seat: 3 }, 'seats'), []);
  t.end();
});

t.test('a filter without an equality on the whole shard key reaches every shard', (t) => {
  for (const filter of [
    {},
    { _id: 'a' },
    { studentId: { $gt: 's' } },
    { studentId: /^s/ },
    { $or: [{ studentId: 's' }] },
    { _id: 'a', studentId: undefined },
  ]) {
    t.same(find(filter), [EVERY], JSON.stringify(filter));
  }
  t.same(find({ linkId: 'l' }, 'seats'), [EVERY]);
  t.same(reaches('find', { find: 'attempts' }), [EVERY]);
  t.same(reaches('aggregate', { aggregate: 'attempts', pipeline: [{ $sort: { _id: 1 } }] }), [EVERY]);
  t.end();
});

t.test('each statement of a command has its own route', (t) => {
  const updates = [
    { q: { studentId: 's' }, multi: true },
    { q: { _id: 'a' }, multi: true },
  ];
  t.same(reaches('update', { update: 'attempts', updates }), [EVERY]);
  t.same(reaches('delete', { delete: 'attempts', deletes: [{ q: { studentId: 's' } }] }), []);
  t.same(reaches('insert', { insert: 'attempts', documents: [{ _id: 'a', studentId: 's' }, { _id: 'b' }] }), [EVERY]);
  t.same(reaches('findAndModify', { findAndModify: 'attempts', query: { studentId: 's' } }), []);
  t.same(reaches('aggregate', { aggregate: 'attempts', pipeline: [{ $match: { studentId: 's' } }] }), []);
  t.same(reaches('distinct', { distinct: 'attempts', query: { _id: 'a' } }), [EVERY]);
  t.same(find({ email: 'e' }, 'accounts'), [], 'the collection is on one shard');
  t.end();
});

t.test('a write of one document has to name one shard', (t) => {
  const [one, several, none] = [{ studentId: 's' }, { studentId: { $in: ['s', 't'] } }, { _id: 'a' }];
  for (const [q, faults] of [[one, []] as const, [several, [REFUSED]] as const, [none, [REFUSED]] as const]) {
    t.same(reaches('update', { update: 'attempts', updates: [{ q }] }), faults);
    t.same(reaches('delete', { delete: 'attempts', deletes: [{ q, limit: 1 }] }), faults);
    t.same(reaches('findAndModify', { findAndModify: 'attempts', query: q }), faults);
  }
  t.same(reaches('update', { update: 'attempts', updates: [{ q: several, multi: true }] }), []);
  t.same(reaches('delete', { delete: 'attempts', deletes: [{ q: none, limit: 0 }] }), [EVERY]);
  t.same(reaches('findAndModify', { findAndModify: 'accounts', query: none }), []);
  t.end();
});

t.test('an update of several documents must not set the shard key', (t) => {
  const q = { studentId: 's' };
  const reach = (u: object, multi = true) => reaches('update', { update: 'attempts', updates: [{ q, u, multi }] });
  for (const u of [
    { $set: { studentId: 't' } },
    [{ $set: { a: 1 } }, { $unset: ['studentId'] }],
    [{ $unset: 'studentId' }],
  ])
    t.same(reach(u), [REFUSED], JSON.stringify(u));
  t.same(reach({ $set: { studentId: 't' } }, false), [], 'a document by itself moves to its new shard');
  t.same(reach({ $set: { status: 'studentId' } }), []);
  t.same(reach([{ $set: { 'body.studentId': 1 } }]), []);
  t.end();
});

t.test('an ordered batch over several shards is sent in turn', (t) => {
  const insert = (ids: readonly string[], ordered: boolean, insert = 'attempts') =>
    reaches('insert', { insert, ordered, documents: ids.map((studentId) => ({ studentId })) });
  t.same(insert(['s', 't'], true), [IN_TURN, IN_TURN]);
  t.same(insert(['s', 's'], true), []);
  t.same(insert(['s', 't'], false), []);
  t.same(insert(['s', 't'], true, 'accounts'), []);
  t.end();
});

t.test('commands without a filter and collections that are not declared have no route', (t) => {
  t.same(reaches('commitTransaction', { commitTransaction: 1 }), []);
  t.same(reaches('getMore', { getMore: 7, collection: 'attempts' }), []);
  t.same(find({}, 'bench_rows'), []);
  t.end();
});

t.test('a shape contains fields and operators, and no value', (t) => {
  const [fault] = faultsOf(
    'find',
    { find: 'attempts', filter: { studentId: { $gt: 's' }, _id: 'a', at: new Date() } },
    PLACEMENTS,
  );
  t.equal(fault?.shape, '_id, at, studentId $gt');
  const [either] = faultsOf('find', { find: 'attempts', filter: { $or: [{ _id: 'a' }, { examId: 'e' }] } }, PLACEMENTS);
  t.equal(either?.shape, '$or(_id|examId)');
  t.end();
});

t.test('an exception names a file that exists, and statements on sharded collections that it may send', (t) => {
  for (const [file, statements] of Object.entries(SHARD_EXCEPTIONS)) {
    t.ok(existsSync(path.resolve(import.meta.dirname, '../../shared/infra/mongo', `${file}.ts`)), file);
    for (const statement of statements)
      t.match(statement, /^(mailboxes|\w+) (find|aggregate|count|update|delete)( \{.*\})?$/, `${file}: ${statement}`);
  }
  const fault = { collection: 'attempts', command: 'find', shape: '_id', fault: EVERY } as const;
  const file = 'shared/infra/mongo/attempt/attempts.ts';
  t.ok(isExcepted(fault, file));
  t.notOk(isExcepted(fault, 'shared/infra/mongo/attempt/grade.ts'), 'another file');
  t.notOk(isExcepted({ ...fault, shape: 'status' }, file), 'another filter');
  t.notOk(isExcepted({ ...fault, fault: REFUSED }, file), 'a refused write has no exception');
  for (const collection of MAILBOXES)
    t.ok(isExcepted({ ...fault, collection }, 'shared/infra/mongo/mailbox/due.ts'), collection);
  t.end();
});

const MIGRATIONS = 'shared/infra/mongo/schema/migrate.ts';

/** Makes a repository; each commit has a schema of this version, and the baseline from that version on. */
function repository(folder: string, ...versions: number[]) {
  const identity = ['-c', 'user.name=t', '-c', 'user.email=t@example.org', '-c', 'init.defaultBranch=main'];
  const git = (...args: string[]) =>
    execFileSync('git', [...identity, ...args], { cwd: folder, encoding: 'utf8', stdio: 'pipe' }).trim();
  git('init', '--quiet');
  mkdirSync(path.join(folder, path.dirname(MIGRATIONS)), { recursive: true });
  const commits = versions.map((version, n) => {
    const lines = Array.from({ length: version }, (_, index) => `  { version: ${index + 1}, name: 'x' },`);
    if (version >= BASELINE) lines.unshift(`export const BASELINE = ${BASELINE};`);
    writeFileSync(path.join(folder, MIGRATIONS), lines.join('\n'));
    writeFileSync(path.join(folder, 'number'), String(n));
    git('add', '.');
    git('commit', '--quiet', '-m', `commit ${n}`);
    return git('rev-parse', 'HEAD');
  });
  return { folder, git, commits };
}

t.test('without a tag, the last commit of an older schema is the earlier release', (t) => {
  const { folder, commits } = repository(t.testdir({}), BASELINE, BASELINE, BASELINE + 1, BASELINE + 1);
  t.match(chooseRelease(folder, BASELINE + 1), { commit: commits[1] });
  t.end();
});

t.test('as long as the baseline is the present schema, its first commit is the earlier release', (t) => {
  const { folder, commits } = repository(t.testdir({}), 1, BASELINE - 1, BASELINE, BASELINE);
  t.match(chooseRelease(folder, BASELINE), { commit: commits[2] });
  t.end();
});

t.test('the last release tag before HEAD goes first', (t) => {
  const { folder, git, commits } = repository(t.testdir({}), 1, BASELINE, BASELINE, BASELINE);
  git('tag', 'v1.0.0', commits[1] ?? '');
  git('tag', 'v1.1.0', 'HEAD');
  t.match(chooseRelease(folder), { commit: commits[1], name: 'v1.0.0' });
  t.end();
});

t.test('a cut history is named, with the command that completes it', (t) => {
  const { folder } = repository(t.testdir({ clone: {} }), BASELINE, BASELINE + 1);
  const clone = path.join(folder, 'clone');
  execFileSync('git', ['clone', '--quiet', '--depth=1', `file://${folder}`, clone], { stdio: 'pipe' });
  t.throws(() => chooseRelease(clone, BASELINE + 1), /shallow clone.*git fetch --unshallow/);
  t.end();
});

t.test('a history without a baseline is named as such', (t) => {
  const { folder } = repository(t.testdir({}), BASELINE - 1);
  t.throws(() => chooseRelease(folder), /no release tag and no commit of the baseline/);
  t.end();
});

t.test('a release is unpacked beside the packages that it shares', (t) => {
  const { folder, git, commits } = repository(t.testdir({ unpacked: {} }), 1);
  const lock = {
    packages: { 'node_modules/a': { version: '1.0.0' }, 'node_modules/b': { version: '1.0.0', dev: true } },
  };
  writeFileSync(path.join(folder, 'package.json'), JSON.stringify({ dependencies: { a: '1.0.0' } }));
  writeFileSync(path.join(folder, 'package-lock.json'), JSON.stringify(lock));
  git('add', 'package.json', 'package-lock.json');
  git('commit', '--quiet', '-m', 'lock');
  // A package for development may differ.
  const newer = { packages: { ...lock.packages, 'node_modules/b': { version: '2.0.0', dev: true } } };
  writeFileSync(path.join(folder, 'package-lock.json'), JSON.stringify(newer));
  const release = { commit: git('rev-parse', 'HEAD'), name: 'x' };
  const unpacked = path.join(folder, 'unpacked', 'earlier');
  unpackRelease(folder, release, unpacked);
  t.equal(readlinkSync(path.join(unpacked, 'node_modules')), path.join(folder, 'node_modules'));
  t.equal(commits.length, 1);
  t.end();
});
