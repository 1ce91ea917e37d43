import t from 'tap';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { findLive } from '#infra/mongo/mailbox/mailbox.ts';
import { createIndexes } from '#infra/mongo/schema/migrate.ts';
import { testKernel, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { finishedOnce, postJob, unlimitedSlots } from '#testing/stored/stored-jobs.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { noneScans, watchFilters } from '#testing/stores/plans.ts';
import { classifierActor } from '#workers/classifier/actor.ts';
import { runCommand } from '#workers/run-command.ts';
import { postRecurringCommands } from '#workers/worker-process.ts';
import { batchErrors } from './job-batches.ts';
import {
  cancelJob,
  findOpenJob,
  findOwnJob,
  findSelection,
  findSelections,
  listJobs,
  retryJob,
  summarizeJobs,
} from './jobs.ts';

const OWNER = { actorId: 'teacher-1', organizationId: 'org-1' };

t.test('no filter of classification jobs scans a collection', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  const { seen } = watchFilters(mongo);
  await createIndexes(mongo);
  const actor = classifierActor(testWorkerDeps(mongo));
  await postRecurringCommands(mongo, actor, Date.now() - 1_000);
  const commands = [await postJob(mongo), await postJob(mongo), await postJob(mongo)];
  const [done, stopped, open] = commands.map(({ subject }) => subject);
  const sweep = await findLive(mongo, 'classifier', 'classifier:lost-jobs');
  for (const command of [commands[0], sweep]) if (command) await runCommand(testKernel(mongo), actor, command);
  t.equal(await finishedOnce(mongo, done ?? ''), 1);
  await cancelJob(mongo, stopped ?? '', OWNER);
  await retryJob(mongo, stopped ?? '', OWNER, unlimitedSlots(), (body) =>
    newCommand({ queue: 'classifier', key: 'again', subject: body.jobId, body, maxAttempts: 3, now: Date.now() }),
  );
  const job = await findOwnJob(mongo, open ?? '', OWNER);
  t.equal((await findOpenJob(mongo, job?.openKey ?? ''))?._id, open);
  await findSelection(mongo, open ?? '');
  await findSelections(mongo, [open ?? '']);
  await batchErrors(mongo, open ?? '');
  for (const status of [null, 'COMPLETED'] as const) await listJobs(mongo, { ...OWNER, status, limit: 5, offset: 0 });
  await summarizeJobs(mongo, { open: 5, failures: 5 });
  await noneScans(t, mongo, seen, 20);
});
