import t from 'tap';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { readCommand } from '#infra/mongo/mailbox/mailbox.ts';
import { readStatus } from '#infra/mongo/operations/cluster.ts';
import type { Command } from '#shared/kernel/command.ts';
import { startWorker } from '#testing/processes/worker-process.ts';
import { postGrading, SUBMITTED, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { makeSuspect } from '#testing/stored/stored-commands.ts';
import { openLane } from '#testing/suites/crash-suite.ts';
import { untilSlowly } from '#testing/until.ts';

/** A run alone may last six leases. A worker on a busy machine must not lose a lease by itself, nor need so long to start a thread. */
const LEASE_MS = 4_000;
const POISONED = { status: 'DEAD', attempts: 3, lapses: 3, lastError: { code: 'POISONED' } };

async function openScene(t: Parameters<typeof openLane>[0]) {
  const { mongo, env } = await openLane(t);
  const read = (command: Command) => readCommand(mongo, command);
  const isDone = async (command: Command) => (await read(command))?.status === 'DONE';
  return {
    mongo,
    env: { ...env, WORKER_LEASE_MS: `${LEASE_MS}`, WORKER_POLL_INTERVAL_MS: '100', LOG_LEVEL: 'warn' },
    read,
    post: async () => postGrading(mongo, await storeAttempt(mongo, SUBMITTED)),
    untilSuspect: (poison: Command) =>
      untilSlowly('the poison is a suspect', async () => (await read(poison))?.lapses === 2),
    untilDone: async (commands: readonly Command[]) => {
      for (const command of commands) await untilSlowly('a healthy command is done', () => isDone(command));
    },
    untilDead: (poison: Command) =>
      untilSlowly('the poison is dead', async () => (await read(poison))?.status === 'DEAD'),
  };
}

/** Returns the alarms about the queue. The grades cause work for actors that do not run here. */
async function alarmsOf(mongo: Mongo) {
  const { alarms } = await readStatus(mongo, Date.now(), async () => true);
  return alarms.filter(({ about }) => about === 'grading');
}

t.test('a command that blocks its workers ends dead in a thread, and both workers go on', async (t) => {
  const { mongo, env, read, post, untilSuspect, untilDone, untilDead } = await openScene(t);
  const poison = await post();
  const harm = { commandId: poison._id, harm: 'block', blockMs: 1.5 * LEASE_MS } as const;
  const workers = [1, 2].map(() => startWorker(t, 'grading', env, harm));
  const beside = await Promise.all(Array.from({ length: 10 }, post));
  await untilSuspect(poison);
  t.match(
    await alarmsOf(mongo),
    [{ kind: 'suspect', about: 'grading', text: new RegExp(poison._id) }],
    'and no scaling',
  );

  await untilSlowly('it runs alone', async () => (await read(poison))?.attempts === 3);
  await untilDone([...beside, ...(await Promise.all(Array.from({ length: 10 }, post)))]);
  t.match(await read(poison), { status: 'PENDING', lapses: 2 }, 'while it blocks its thread, others are served');
  t.match(await alarmsOf(mongo), [{ kind: 'suspect', text: /, so it runs alone until / }]);

  await untilDead(poison);
  t.match(await read(poison), POISONED);
  t.match(await alarmsOf(mongo), [
    { kind: 'dead-letters', text: `grading: 1 dead letter; 1 died in a run alone, the last one ${poison._id}` },
  ]);
  t.match(await attempts(mongo).findOne({ _id: poison.subject }), { status: 'SUBMITTED' });
  await untilDone([await post()]);
  for (const worker of workers) t.equal(await worker.stop(), '0', worker.logged());
});

t.test('a command that kills its workers kills three and no more, and frees the isolation slot', async (t) => {
  const { mongo, env, read, post, untilDone } = await openScene(t);
  const [poison, healthy] = [await post(), await post()];
  const held = await makeSuspect(mongo, await post());
  const start = () => startWorker(t, 'grading', env, { commandId: poison._id, harm: 'kill' });
  let worker = start();
  let deaths = 0;
  const isDead = async () => (await read(poison))?.status === 'DEAD';
  await untilSlowly('the poison is dead', async () => {
    // As a platform does.
    const how = await Promise.race([worker.ended, isDead()]);
    if (typeof how === 'boolean') return how;
    t.equal(how, 'SIGKILL');
    deaths += 1;
    worker = start();
    return false;
  });
  t.equal(deaths, 3);
  t.match(await read(poison), POISONED);
  await untilDone([healthy, held]);
  t.equal(await worker.stop(), '0', worker.logged());
});

t.test('a run alone that needs too much memory ends its thread, and the process goes on', async (t) => {
  const { mongo, env, read, post, untilDone, untilDead } = await openScene(t);
  const poison = await makeSuspect(mongo, await post());
  const worker = startWorker(t, 'grading', env, { commandId: poison._id, harm: 'memory' });
  await untilDead(poison);
  t.match(await read(poison), POISONED);
  await untilDone([await post()]);
  // The command may be dead before its thread, which is busy, is without memory.
  await untilSlowly('the thread is without memory', async () => worker.logged().includes('ERR_WORKER_OUT_OF_MEMORY'));
  t.equal(await worker.stop(), '0', worker.logged());
});
