import t from 'tap';
import { cancelJob } from '#infra/mongo/classifier/jobs.ts';
import { COMMANDS } from '#infra/mongo/mailbox/commands.ts';
import { replayDead } from '#infra/mongo/mailbox/dead-letters.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import type { Command } from '#shared/kernel/command.ts';
import { classifierScene, OWNER, passing, twelve } from '#testing/actors/classifier-scene.ts';
import { testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { again, expire } from '#testing/stored/stored-commands.ts';
import { finishedOnce, postJob } from '#testing/stored/stored-jobs.ts';
import { tappedDb } from '#testing/stores/tapped-db.ts';
import { gate } from '#testing/until.ts';
import { postRecurringCommands } from '#workers/worker-process.ts';
import { classifierActor } from './actor.ts';

t.test('the sweep ends a job whose command died with its workers, and no other job', async (t) => {
  const { mongo, actor, run, job } = await classifierScene(t);
  const sweeper = actor(() => undefined);
  await postRecurringCommands(mongo, sweeper, Date.now() - 1_000);
  const sweep = (await mailboxOf(mongo, 'classifier').findOne({ key: 'classifier:lost-jobs' })) as Command;
  const [lost, waiting, cancelled] = [
    await postJob(mongo, { maxAttempts: 1 }),
    await postJob(mongo),
    await postJob(mongo),
  ];
  await cancelJob(mongo, cancelled.subject, OWNER);
  await mailboxOf(mongo, 'classifier').updateOne({ _id: lost._id }, { $set: { attempts: 1 } });
  t.equal(await run(sweeper, lost), 'dead', 'dead after the last worker was killed');
  t.equal(await run(sweeper, sweep), 'snoozed');
  t.match(await job(lost), { status: 'FAILED', open: false, error: { code: 'INTERNAL' }, finishedAt: Date });
  t.match(await job(waiting), { status: 'PENDING', open: true });
  t.match(await job(cancelled), { status: 'CANCELLED' });
});

t.test('outcomes stored before the command died count, and open batches become errors', async (t) => {
  const { mongo, actor, run, job, stored, publishedJobs } = await classifierScene(t);
  const command = await postJob(mongo, { ...twelve, maxAttempts: 2 });
  const fails = actor((ids) => {
    if (ids[0]?.startsWith('q-6-')) throw passing();
  });
  t.equal(await run(fails, command), 'retried');
  await mailboxOf(mongo, 'classifier').updateOne({ _id: command._id }, { $set: { attempts: 2 } });
  await expire(mongo, command);
  t.equal(await run(fails, command), 'dead', 'dead after the last worker was killed');
  await postRecurringCommands(mongo, fails, Date.now() - 1_000);
  const sweep = (await mailboxOf(mongo, 'classifier').findOne({ key: 'classifier:lost-jobs' })) as Command;
  publishedJobs.length = 0;
  t.equal(await run(fails, sweep), 'snoozed');
  t.match(await job(command), { status: 'COMPLETED', open: false, error: null, counts: { succeeded: 5, failed: 7 } });
  t.equal(await finishedOnce(mongo, command.subject), 1);
  const { errors } = await stored(command);
  t.strictSame([...new Set(errors.map(({ code }) => code))], ['INTERNAL']);
  t.strictSame(publishedJobs, [command.subject]);
});

t.test('the sweep leaves a job to its worker if an operator replays its command during the sweep', async (t) => {
  const { mongo, actor, run, job } = await classifierScene(t);
  const command = await postJob(mongo, { ...twelve, maxAttempts: 1 });
  await mailboxOf(mongo, 'classifier').updateOne({ _id: command._id }, { $set: { attempts: 1 } });
  const [begun, goOn] = [gate(), gate()];
  const slow = actor(async (ids) => {
    if (!ids[0]?.startsWith('q-6-')) return undefined;
    begun.open();
    await goOn.opened;
    return undefined;
  });
  t.equal(await run(slow, command), 'dead');
  let running: Promise<unknown> | undefined;
  const replayed = tappedDb(mongo, (method, name, collection) => {
    if (name !== 'findOne' || collection !== COMMANDS) return undefined;
    return async (...args) => {
      // Intercept the second of the sweep's two reads of the command, in its transaction. The open batches are read by then.
      const [, options] = args as [unknown, { session?: object }];
      if (options?.session === undefined || running !== undefined) return method(...args);
      const dead = await again(mongo, command);
      t.ok(await replayDead(mongo, dead, { operator: 'op', reason: 'the worker was too small', now: Date.now() }));
      running = run(slow, command);
      await begun.opened;
      return method(...args);
    };
  });
  const sweeper = classifierActor(testWorkerDeps({ ...mongo, db: replayed }));
  await postRecurringCommands(mongo, sweeper, Date.now() - 1_000);
  const sweep = (await mailboxOf(mongo, 'classifier').findOne({ key: 'classifier:lost-jobs' })) as Command;
  t.equal(await run(sweeper, sweep), 'snoozed');
  goOn.open();
  t.equal(await running, 'done');
  t.match(await job(command), { status: 'COMPLETED', counts: { succeeded: 12, failed: 0, batchesDone: 3 } });
  t.equal(await finishedOnce(mongo, command.subject), 1);
});
