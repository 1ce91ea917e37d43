import t from 'tap';
import { WORKERS, type WorkerRow } from '#infra/mongo/live-workers.ts';
import { findBulk, listBulks } from '#infra/mongo/operations/bulk-acts.ts';
import { operatorAudit } from '#infra/mongo/operator-audit.ts';
import { migrate } from '#infra/mongo/schema/migrate.ts';
import { bulkView } from '#shared/operations/bulk-act.ts';
import { testKernel, testWorker, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { callExamhall } from '#testing/processes/run-examhall.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { workerRow } from '#testing/stored/stored-commands.ts';
import { postBulkAct, storeDeadGrading } from '#testing/stored/stored-dead-letters.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { ownRedis } from '#testing/stores/own-redis.ts';
import { makeActor } from '#testing/suites/actor-subjects.ts';
import { until } from '#testing/until.ts';

const WHY = ['--reason', 'the disk was cleared'];

// A front door counts a Redis that stores no ring as unavailable. The tool has to agree with it.
const mongo = await openTestMongo(t, { empty: true });
await migrate(mongo, () => undefined, { isProbed: true });
const redis = await ownRedis();

t.test('dead drop --all counts first, then follows a bulk act that a worker carries out', async (t) => {
  const mongo = await openTestMongo(t);
  const examhall = (...args: string[]) => callExamhall(mongo, args);
  for (let n = 0; n < 3; n++) await storeDeadGrading(mongo);
  const all = ['dead', 'drop', '--queue', 'grading', '--all', ...WHY];
  const dry = await examhall(...all);
  t.match(dry, { code: 0, out: /^dry run: 3 dead commands would be dropped, 20 a second; pass --yes to drop them\n/ });
  t.match(dry.out, /^3 +0 +grading +Error: the disk is full/m);
  t.strictSame(await listBulks(mongo, 1), [], 'a dry run stores nothing');

  testWorker(t, testKernel(mongo), makeActor('upkeep', testWorkerDeps(mongo)), { pollMs: 20 });
  const done = await examhall(...all, '--per-second', '200', '--yes', '--operator', 'binh');
  t.match(done, { code: 0, out: '3 of 3 dropped\n', err: /bulk act \S+ is stored; Ctrl\+C leaves it running/ });
  t.match(done.err, /no live `upkeep` worker/, 'this worker writes no row of its own');
  const [act] = await listBulks(mongo, 1);
  const { jobs } = JSON.parse((await examhall('dead', 'jobs', '--json')).out);
  t.strictSame(jobs, act === undefined ? [] : [bulkView(act)]);
  t.match(jobs, [{ act: 'drop', state: 'DONE', operator: 'binh', done: 3, perSecond: 200 }]);
  t.match(await examhall('dead', 'jobs'), { code: 0, out: /DONE +drop +3 +3 +0 +binh/ });
  t.match(JSON.parse((await examhall('dead', 'jobs', jobs[0].id)).out), jobs[0]);
  t.match(await examhall('dead', 'list'), { out: 'no dead letters\n' });
});

t.test('Ctrl+C leaves a bulk act running, and dead stop ends it', async (t) => {
  const mongo = await openTestMongo(t);
  await storeDeadGrading(mongo);
  const leave = new AbortController();
  const args = ['dead', 'replay', '--queue', 'grading', '--all', ...WHY, '--yes', '--json'];
  const following = callExamhall(mongo, args, { interrupted: leave.signal });
  await until('the act is stored', async () => (await listBulks(mongo, 1)).length === 1);
  leave.abort();
  const left = await following;
  const { id, state } = JSON.parse(left.out);
  t.equal(left.code, 0);
  t.equal(state, 'WAITING');
  t.match(left.err, `see \`examhall dead jobs ${id}\`; stop it with \`examhall dead stop ${id}\``);
  t.match(await callExamhall(mongo, ['dead', 'stop', id]), { code: 2, err: /--reason is required/ });
  t.match(await callExamhall(mongo, ['dead', 'stop', id, ...WHY]), { code: 0, out: /it stops before its next letter/ });
  t.match(await callExamhall(mongo, ['dead', 'stop', id, ...WHY]), { code: 1, out: 'not stopped: it is STOPPING\n' });
  t.equal(await operatorAudit(mongo).countDocuments({ commandId: id, action: 'dead.bulk-stop' }), 1);
  t.match(await findBulk(mongo, id), { body: { stop: { operator: 'an' } } });
});

t.test('the arguments of a bulk act are checked', async (t) => {
  const mongo = await openTestMongo(t);
  const act = await postBulkAct(mongo);
  const faults: [args: string[], code: number, err: RegExp][] = [
    [['dead', 'replay', '--all', ...WHY], 2, /pass command ids or a filter/],
    [['dead', 'replay', 'an-id', '--all', ...WHY], 2, /not both/],
    [['dead', 'ack', '--queue', 'grading', '--all', '--limit', '5', ...WHY], 2, /--limit or --all/],
    [['dead', 'ack', '--queue', 'grading', '--all', '--per-second', '201', ...WHY], 2, /--per-second must be/],
    [['dead', 'ack', '--queue', 'grading', '--all'], 2, /--reason is required/],
    [['dead', 'jobs', 'unknown'], 1, /no bulk act with id unknown/],
    [['dead', 'stop', 'unknown', ...WHY], 1, /no bulk act with id unknown/],
    [['dead', 'jobs', '--limit', '0'], 2, /--limit must be/],
  ];
  for (const [args, code, err] of faults)
    t.match(await callExamhall(mongo, args), { code, out: '', err }, args.join(' '));
  t.match(await callExamhall(mongo, ['dead', 'jobs', act._id]), { code: 0, err: /no live `upkeep` worker/ });
});
t.teardown(() => redis.close());
const examhall = (words: string[], url = redis.url) => callExamhall(mongo, words, { env: { REDIS_URL: url } });

t.test(
  'a Redis that is full or read-only is an alarm of status, a reason of trace and a fault of doctor',
  async (t) => {
    t.match(await examhall(['status']), { code: 0, out: /^all is well\n/ });
    for (const [broken, mended, why] of [
      ['CONFIG SET maxmemory 1', 'CONFIG SET maxmemory 0', /OOM/],
      ['REPLICAOF 127.0.0.1 1', 'REPLICAOF NO ONE', /READONLY|read only/],
    ] as const) {
      await command(broken);
      t.match(await examhall(['status']), { code: 1, out: /^1 alarm\n {2}Redis does not answer or stores no rings/ });
      const { code, out } = await examhall(['doctor']);
      t.equal(code, 1);
      const [line = ''] = out.split('\n').filter((text) => text.startsWith('missing'));
      t.match(line, /^missing {2}Redis \d\S*: it stores no rings/, broken);
      t.match(line, why);
      await command(mended);
    }
    t.match(await examhall(['doctor']), { code: 0, out: /^ok {7}Redis \d\S*, noeviction$/m });

    const attempt = await storeAttempt(mongo, SUBMITTED);
    await postGrading(mongo, attempt);
    await storeWorker();
    await command('CONFIG SET maxmemory 1');
    const { out } = await examhall(['trace', attempt._id, '--json']);
    t.match(JSON.parse(out).verdicts, [{ code: 'REDIS_UNAVAILABLE' }]);
    const { out: board } = await examhall(['exam', attempt.examId, '--json']);
    t.match(JSON.parse(board).attempts, [{ reason: { code: 'REDIS_UNAVAILABLE' } }]);
    await command('CONFIG SET maxmemory 0');
  },
);

t.test('the tool works with the Redis user of docs/operating.md, which may not run INFO', async (t) => {
  const rights = ['~examhall:*', 'resetchannels', '&examhall:*', '+@all', '-@dangerous'];
  await redis.command('ACL', 'SETUSER', 'hall', 'on', '>secret', ...rights);
  const url = redis.url.replace('redis://', 'redis://hall:secret@');
  t.match(await examhall(['status'], url), { code: 0, out: /^all is well\n/ });
  const { out } = await examhall(['doctor'], url);
  t.match(out, /^ok {7}Redis: its eviction policy is not visible to this user$/m);
});

/** Stores a live worker of grades. */
async function storeWorker(): Promise<void> {
  const seenAt = new Date(Date.now() + 60_000);
  await mongo.db.collection<WorkerRow>(WORKERS).insertOne(workerRow('grading', { seenAt }));
}

/** Runs a command of Redis. */
async function command(text: string): Promise<void> {
  const [name = '', ...args] = text.split(' ');
  await redis.command(name, ...args);
}
