import t from 'tap';
import { WORKERS, type WorkerRow } from '#infra/mongo/live-workers.ts';
import { migrate } from '#infra/mongo/schema/migrate.ts';
import { startThrowAwayServices } from '#scripts/services/throw-away.ts';
import { callExamhall } from '#testing/processes/run-examhall.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { workerRow } from '#testing/stored/stored-workers.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { ownRedis } from '#testing/stores/own-redis.ts';

// A front door counts a Redis that stores no ring as unavailable. The tool has to agree with it.

const mongo = await openTestMongo(t, { empty: true });
await migrate(mongo, () => undefined, { isProbed: true });
const redis = await ownRedis(startThrowAwayServices);
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
