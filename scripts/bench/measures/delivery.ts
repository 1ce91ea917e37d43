import { setTimeout as delay } from 'node:timers/promises';
import { DELIVERIES } from '#infra/mongo/mailbox/commands.ts';
import { insertNotification } from '#infra/mongo/notification/inbox-changes.ts';
import type { BenchContext, Measure } from '#scripts/bench/context.ts';
import { openStage, type Stage } from '#scripts/bench/stage.ts';
import { listenLocally } from '#scripts/http/local-server.ts';
import { newId } from '#shared/kernel/ids.ts';
import type { Channel } from '#shared/notification/delivery.ts';
import { newNotification } from '#shared/notification/notification.ts';

const POLL_MS = 100;
const GIVE_UP_MS = 10 * 60_000;

/** Measures how fast one worker drains a backlog of deliveries to a receiver that answers at once. */
export const measureDelivery: Measure = async (context) => {
  const jobs = context.quick ? 200 : 2_000;
  const receiver = await listenLocally((_call, response) => response.end('{}'));
  const env = {
    NOTIFICATION_CHANNELS: 'webhook',
    NOTIFICATION_WEBHOOK_URL: `${receiver.url}/`,
    NOTIFICATION_WEBHOOK_SECRET: 'whsec_YmVuY2gtc2VjcmV0LW9mLXRoaXJ0eS10d28tYnl0ZXM=',
  };
  const stage = await openStage(context, [], env);
  try {
    await fill(stage, jobs);
    const from = performance.now();
    await stage.start('delivery');
    await drained(stage, jobs, context);
    const rate = jobs / ((performance.now() - from) / 1_000);
    return [
      {
        name: 'deliveries drained',
        unit: '/s',
        ours: { p50: rate, p99: rate },
        reference: null,
        against: 'one worker, eight at once',
        aim: null,
        notes: [
          `${jobs} jobs, the start of the worker included; each takes two transactions, two reads of preferences and one signed call`,
        ],
      },
    ];
  } finally {
    await stage.close();
    await receiver.close();
  }
};

async function fill(stage: Stage, jobs: number): Promise<void> {
  const origin = { fanOutId: null, sourceEventRef: null, organizationId: null };
  for (let n = 0; n < jobs; n++) {
    const now = Date.now();
    const input = { userId: `student-${n}`, type: 'EXAM_ASSIGNED', title: 'Bài thi mới', content: `Bài ${n}` };
    const row = newNotification(input, { id: newId(now), now: new Date(now), place: 'INBOX', ordinal: 0, origin });
    await insertNotification(stage.mongo, row, {
      now,
      deliveries: { channels: new Set<Channel>(['webhook']), maxAttempts: 6 },
    });
  }
}

async function drained(stage: Stage, jobs: number, context: BenchContext): Promise<void> {
  const from = performance.now();
  for (let left = jobs; left > 0; ) {
    await delay(POLL_MS);
    // Name the queue: without it the stand-ins count by the index of dead letters, and find none.
    const waiting = { queue: 'delivery:webhook', status: 'PENDING' };
    left = await stage.mongo.db.collection(DELIVERIES).countDocuments(waiting);
    context.progress.step(jobs - left, jobs);
    if (performance.now() - from > GIVE_UP_MS) throw new Error('the deliveries did not drain');
  }
}
