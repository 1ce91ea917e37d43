import t from 'tap';
import { DELIVERIES } from '#infra/mongo/mailbox/commands.ts';
import type { Command } from '#shared/kernel/command.ts';
import { testKernel, testWorker, testWorkerDeps } from '#testing/actors/test-kernel.ts';
import { openFaultReceiver } from '#testing/neighbours/fault-receiver.ts';
import { WEBHOOK_SECRET } from '#testing/neighbours/neighbours.ts';
import { again } from '#testing/stored/stored-commands.ts';
import { postDelivery } from '#testing/stored/stored-deliveries.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { until } from '#testing/until.ts';
import { queuesOf } from '#workers/actor.ts';
import { deliveryActor } from './actor.ts';

const SLOTS = 2;

t.test('a hanging receiver delays its own channel and no other', async (t) => {
  const mongo = await openTestMongo(t);
  const receiver = await openFaultReceiver(t);
  receiver.behaviour = { kind: 'hang' };
  const deps = testWorkerDeps(mongo, {
    NOTIFICATION_CHANNELS: 'log,webhook',
    NOTIFICATION_WEBHOOK_URL: receiver.url,
    NOTIFICATION_WEBHOOK_SECRET: WEBHOOK_SECRET,
    NOTIFICATION_WEBHOOK_TIMEOUT_MS: '25000',
  });
  const actor = deliveryActor(deps);
  t.strictSame(queuesOf(actor), ['delivery:log', 'delivery:webhook']);
  const kernel = testKernel(mongo);
  const hanging: Command[] = [];
  for (let n = 0; n < SLOTS * 3; n++) hanging.push(await postDelivery(mongo, { channel: 'webhook' }));
  const worker = testWorker(t, kernel, actor, { concurrency: SLOTS, pollMs: 20 });
  t.teardown(() => kernel.halt.abort(new Error('the test is over')));
  await until('the receiver hangs with all that its channel may hold', () => receiver.posts.length === SLOTS);

  const others: Command[] = [];
  for (let n = 0; n < 5; n++) others.push(await postDelivery(mongo, { channel: 'log' }));
  for (const job of others) {
    await until('delivered beside it', async () => (await again(mongo, job)).status === 'SENT');
  }
  t.equal(receiver.posts.length, SLOTS, 'while it still hangs');
  t.equal(worker.busy().length >= SLOTS, true);
  for (const job of hanging) t.match(await again(mongo, job), { status: 'PENDING' });

  // The receiver recovers. The stop snoozes the hanging jobs without spending an attempt, and a new worker delivers them all.
  kernel.halt.abort(new Error('the process is stopping'));
  await worker.drain();
  receiver.behaviour = { kind: 'answer', status: 204 };
  testWorker(t, testKernel(mongo), actor, { concurrency: SLOTS, pollMs: 20 });
  for (const job of hanging) {
    await until('delivered', async () => (await again(mongo, job)).status === 'SENT');
    t.match(await again(mongo, job), { attempts: 1 });
  }
});

t.test('a worker without channels claims nothing, and jobs posted earlier wait', async (t) => {
  const mongo = await openTestMongo(t);
  const job = await postDelivery(mongo, { channel: 'log' });
  const polled = async (env: NodeJS.ProcessEnv) => {
    const actor = deliveryActor(testWorkerDeps(mongo, env));
    const worker = testWorker(t, testKernel(mongo), actor);
    await worker.poll();
    await worker.idle();
    await worker.drain();
    return again(mongo, job);
  };
  t.strictSame(queuesOf(deliveryActor(testWorkerDeps(mongo))), []);
  t.match(await polled({}), { status: 'PENDING', attempts: 0, fence: 0, workerId: null });
  t.match(await polled({ NOTIFICATION_CHANNELS: 'log' }), { status: 'SENT', attempts: 1 });
  t.equal(await mongo.db.collection(DELIVERIES).countDocuments(), 1);
});
