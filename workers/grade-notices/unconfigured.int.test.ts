import t from 'tap';
import { queueNotices } from '#infra/mongo/attempt/release.ts';
import { NOTICES } from '#infra/mongo/mailbox/commands.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { gradeNotices } from '#shared/attempt/notices.ts';
import type { Command } from '#shared/kernel/command.ts';
import { testKernel, testWorker, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { openNeighbours } from '#testing/neighbours/neighbours.ts';
import { graded, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { gradeNoticesActor } from './actor.ts';

t.test('notices of a neighbour that is not configured stay unclaimed and spend no attempt', async (t) => {
  const mongo = await openTestMongo(t);
  const neighbours = await openNeighbours(t);
  const notices = gradeNotices(await storeAttempt(mongo, graded()));
  const options = { maxAttempts: 3, now: Date.now() - 1_000 };
  await inTransaction(mongo, 60_000, (session) => queueNotices(mongo, session, notices, options));
  const rows = () =>
    mongo.db
      .collection<Command>(NOTICES)
      .find({}, { sort: { queue: -1 } })
      .toArray();
  const untouched = { status: 'PENDING', attempts: 0, fence: 0, workerId: null } as const;

  async function pollWith(env: NodeJS.ProcessEnv) {
    const worker = testWorker(t, testKernel(mongo), gradeNoticesActor(testWorkerDeps(mongo, env)));
    await worker.poll();
    await worker.idle();
    await worker.drain();
    return rows();
  }
  t.match(await pollWith({}), [untouched, untouched], 'no notification service: both wait');
  t.match(await pollWith({ PROFILE_SERVICE_URL: neighbours.url }), [untouched, untouched]);
  t.match(
    await pollWith({ NOTIFICATION_SERVICE_URL: neighbours.url }),
    [{ status: 'DELIVERED', attempts: 1, result: { recipients: 1 } }, untouched],
    'no profile service: the rows to parents wait',
  );
  t.match(await pollWith(neighbours.env), [{ status: 'DELIVERED' }, { status: 'DELIVERED', attempts: 1 }]);
  t.strictSame(
    [...neighbours.notices],
    notices.map((notice) => [notice.sourceEventId, 1]),
  );
});
