import t, { type Test } from 'tap';
import { queueNotices } from '#infra/mongo/attempt/release.ts';
import { NOTICES } from '#infra/mongo/mailbox/commands.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { inTransaction } from '#infra/mongo/transaction.ts';
import { gradeNotices } from '#shared/attempt/notices.ts';
import type { Command } from '#shared/kernel/command.ts';
import { testKernel, testWorker, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { openNeighbours } from '#testing/neighbours/neighbours.ts';
import { postAccountNotice } from '#testing/stored/stored-accounts.ts';
import { graded, storeAttempt } from '#testing/stored/stored-attempts.ts';
import { openTestMongo, type TestMongo } from '#testing/stores/open-test-mongo.ts';
import { accountNoticesActor } from './account-notices/actor.ts';
import type { Actor } from './actor.ts';
import { gradeNoticesActor } from './grade-notices/actor.ts';

/** Opens a worker, lets it run what one poll finds, and closes it. */
async function pollOnce(t: Test, mongo: TestMongo, actor: Actor): Promise<void> {
  const worker = testWorker(t, testKernel(mongo), actor);
  await worker.poll();
  await worker.idle();
  await worker.drain();
}

t.test(
  'account notices wait unspent until the notification service is configured, and carry a token of their own',
  async (t) => {
    const mongo = await openTestMongo(t);
    const neighbours = await openNeighbours(t);
    const { _id } = await postAccountNotice(mongo);

    async function pollWith(env: NodeJS.ProcessEnv) {
      await pollOnce(t, mongo, accountNoticesActor(testWorkerDeps(mongo, env)));
      return mailboxOf(mongo, 'accountnotices').findOne({ _id });
    }
    t.match(await pollWith({}), { status: 'PENDING', attempts: 0, fence: 0, workerId: null });
    neighbours.answer = () => ({ status: 401 });
    const tokens = {
      NOTIFICATION_TOKEN_ATTEMPT_SERVICE: 'token of the attempt service',
      NOTIFICATION_TOKEN_AUTH_SERVICE: 'token of the auth service',
    };
    const env = { NOTIFICATION_SERVICE_URL: neighbours.url, ...tokens };
    t.match(await pollWith(env), { status: 'PENDING', attempts: 0 }, 'a refused token spends no attempt');
    neighbours.answer = null;
    await mailboxOf(mongo, 'accountnotices').updateOne({ _id }, { $set: { nextRunAt: new Date(0) } });
    t.match(await pollWith(env), { status: 'DELIVERED', attempts: 1, result: { recipients: 1 } });
    t.strictSame([...neighbours.notices], [[_id, 1]]);
    for (const { headers } of neighbours.calls) {
      t.match(headers, {
        'x-internal-service': 'auth-service',
        'x-internal-token': tokens.NOTIFICATION_TOKEN_AUTH_SERVICE,
      });
    }
  },
);

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
    await pollOnce(t, mongo, gradeNoticesActor(testWorkerDeps(mongo, env)));
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
