import t, { type Test } from 'tap';
import { openMongo } from '#infra/mongo/connect.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf, postCommandsIn } from '#infra/mongo/mailbox/mailbox.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { gradeNotices } from '#shared/attempt/notices.ts';
import { newId } from '#shared/kernel/ids.ts';
import { testKernel, testWorker } from '#testing/actors/test-kernel.ts';
import { sampleAttempt } from '#testing/stored/sample-attempt.ts';
import { countCommands } from '#testing/stores/counted-commands.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { until } from '#testing/until.ts';
import type { Actor } from './actor.ts';
import { runCommand } from './run-command.ts';

const QUEUE = 'gradenotices:student';
const SLOTS = 8;

/** Stores notices, and opens a worker of eight slots for them. Each run ends its notice at once. */
async function stage(t: Test, { backlog }: { backlog: number }) {
  const stored = await openTestMongo(t);
  const now = Date.now() - 1_000;
  const commands = Array.from({ length: backlog }, () => {
    const [notice] = gradeNotices(sampleAttempt());
    if (notice === undefined) throw new Error('an attempt has no notice');
    return newCommand({ queue: QUEUE, key: newId(now), subject: 'a test', body: notice, maxAttempts: 10, now });
  });
  await inTransaction(stored, 5_000, (session) => postCommandsIn(stored, session, commands));
  const mongo = openMongo({ url: stored.url, database: stored.database, appName: 'counted' });
  t.teardown(() => mongo.close());
  const sent = countCommands(mongo);
  const runs = new Map<string, number>();
  const actor: Actor = {
    name: 'gradenotices',
    backoff: { baseMs: 1, capMs: 1 },
    handlers: {
      async [QUEUE]({ command }) {
        runs.set(command._id, (runs.get(command._id) ?? 0) + 1);
        return { kind: 'done', as: 'DELIVERED', result: { recipients: 1 } };
      },
    },
  };
  await mongo.db.command({ ping: 1 });
  sent.taken();
  return { stored, mongo, commands, sent, runs, actor };
}

/** Lets a worker work off due notices. Returns the runs of each, and the MongoDB commands of the worker. */
async function workOffBacklog(t: Test, backlog: number) {
  const { stored, mongo, sent, runs, actor } = await stage(t, { backlog });
  const left = () => mailboxOf(stored, QUEUE).countDocuments({ queue: QUEUE, status: 'PENDING' });
  // The first poll of a worker begins when it is opened.
  const worker = testWorker(t, testKernel(mongo), actor, { concurrency: SLOTS });
  await until('the backlog is worked off', async () => (await left()) === 0);
  await worker.idle();
  return { runs, commands: sent.taken() };
}

t.test('the poll works through a backlog without a new read of it for each command', async (t) => {
  const backlog = 100;
  const { runs, commands } = await workOffBacklog(t, backlog);
  t.equal(runs.size, backlog);
  t.ok([...runs.values()].every((count) => count === 1));
  // Each needs a claim and a settlement. A read for each of them would be a third command.
  t.ok(commands.length <= 2 * backlog + 5, `${commands.length} MongoDB commands for ${backlog} commands`);
});

t.test('a ring costs a claim and a settlement, and a claim alone if it names no command', async (t) => {
  const { mongo, commands, sent, runs, actor } = await stage(t, { backlog: 1 });
  const [keyed] = commands;
  if (keyed === undefined) throw new Error('a notice is stored');
  t.equal(await runCommand(testKernel(mongo), actor, keyed), 'done');
  t.strictSame(sent.taken(), ['findAndModify', 'update']);
  t.strictSame([...runs.values()], [1]);
  t.equal(await runCommand(testKernel(mongo), actor, { _id: 'unknown', queue: QUEUE, key: 'unknown' }), 'not-ours');
  t.strictSame(sent.taken(), ['findAndModify']);
  t.equal(await runCommand(testKernel(mongo), actor, { ...keyed, key: 'another' }), 'not-ours', 'a wrong key');
});
