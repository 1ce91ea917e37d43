import t from 'tap';
import { liveWorkers } from '#infra/mongo/live-workers.ts';
import { mailboxOf } from '#infra/mongo/mailbox/mailbox.ts';
import { deliveryAttempts } from '#infra/mongo/notification/collections.ts';
import { MINUTE } from '#shared/kernel/time.ts';
import { openFaultReceiver } from '#testing/neighbours/fault-receiver.ts';
import { startWorker } from '#testing/processes/worker-process.ts';
import { again } from '#testing/stored/stored-commands.ts';
import { postDelivery } from '#testing/stored/stored-notifications.ts';
import { openLane } from '#testing/suites/crash-suite.ts';
import { until } from '#testing/until.ts';

t.test('the process claims its jobs with the delivery lease and reports the slots of all its queues', async (t) => {
  const { mongo, env } = await openLane(t);
  const receiver = await openFaultReceiver(t);
  receiver.behaviour = { kind: 'hang' };
  const worker = startWorker(t, 'delivery', {
    ...env,
    NOTIFICATION_CHANNELS: 'log,webhook',
    NOTIFICATION_WEBHOOK_URL: receiver.url,
    WORKER_LEASE_MS: '1500',
    NOTIFICATION_DELIVERY_LEASE_MS: `${5 * MINUTE}`,
    WORKER_CONCURRENCY: '3',
  });
  const job = await postDelivery(mongo);
  await until('the receiver is called', () => receiver.posts.length === 1);
  const [row] = await deliveryAttempts(mongo).find().toArray();
  t.equal(row?.status, 'QUEUED');
  const heldMs = Number((await again(mongo, job)).lockedUntil) - Number(row?.createdAt);
  t.ok(heldMs > 2 * MINUTE && heldMs < 6 * MINUTE, `held for ${heldMs} ms`);
  const [seen] = await until('the heartbeat of the process', async () => {
    const live = await liveWorkers(mongo, Date.now());
    return live.length === 1 ? live : null;
  });
  t.match(seen, { actor: 'delivery', queues: ['delivery:log', 'delivery:webhook'], slots: 6 });

  worker.child.kill('SIGKILL');
  await worker.ended;
  t.match(await mailboxOf(mongo, job.queue).findOne({ _id: job._id }), { status: 'PENDING', attempts: 1 });
});

t.test('a process without a channel idles: it stays alive, claims nothing and stops in order', async (t) => {
  const { mongo, env } = await openLane(t);
  const job = await postDelivery(mongo);
  const worker = startWorker(t, 'delivery', { ...env, NOTIFICATION_CHANNELS: '' });
  const [seen] = await until('the heartbeat of the process', async () => {
    const live = await liveWorkers(mongo, Date.now());
    return live.length === 1 ? live : null;
  });
  t.match(seen, { actor: 'delivery', queues: [], slots: 0 });
  t.equal(await worker.stop(), '0');
  t.match(await again(mongo, job), { status: 'PENDING', attempts: 0, fence: 0 });
});
