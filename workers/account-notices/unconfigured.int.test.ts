import t from 'tap';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { testKernel, testWorker, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { openNeighbours } from '#testing/neighbours/neighbours.ts';
import { postAccountNotice } from '#testing/stored/stored-accounts.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { accountNoticesActor } from './actor.ts';

t.test(
  'account notices wait unspent until the notification service is configured, and carry a token of their own',
  async (t) => {
    const mongo = await openTestMongo(t);
    const neighbours = await openNeighbours(t);
    const { _id } = await postAccountNotice(mongo);

    async function pollWith(env: NodeJS.ProcessEnv) {
      const worker = testWorker(t, testKernel(mongo), accountNoticesActor(testWorkerDeps(mongo, env)));
      await worker.poll();
      await worker.idle();
      await worker.drain();
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
