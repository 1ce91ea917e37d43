import { randomBytes } from 'node:crypto';
import { openReleaseMongo } from '#infra/mongo/connect.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { notifications } from '#infra/mongo/notification/collections.ts';
import { insertFanOut, type NewFanOut } from '#infra/mongo/notification/fan-out.ts';
import { createIndexes } from '#infra/mongo/schema/migrate.ts';
import { alternate, figuresOf, type Measure, timed } from '#scripts/bench/measure.ts';
import { newId } from '#shared/kernel/ids.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import { finishFanOutOrder } from '#shared/notification/commands.ts';
import { newEvent } from '#shared/notification/event.ts';
import { planFanOut } from '#shared/notification/fan-out.ts';

const RECIPIENTS = 10_000;

/** Measures an event with 10,000 recipients against its unavoidable part: the insert of the same rows into the same indexes. */
export const measureFanOut: Measure = async (context) => {
  const recipients = context.quick ? 2_000 : RECIPIENTS;
  const database = `bench_${randomBytes(5).toString('hex')}`;
  // Without a socket timeout: a retry of an insert that is still running meets its own rows.
  const mongo = openReleaseMongo({ url: context.mongodbUrl, database, appName: 'examhall-bench' });
  try {
    await createIndexes(mongo);
    const { ours, reference } = await alternate(context, {
      ours: () => {
        const wanted = fanOutTo(recipients);
        return timed(() => insertFanOut(mongo, wanted));
      },
      reference: () => {
        // The reference inserts visible rows, which cost the indexes the same work as staged ones.
        const rows = fanOutTo(recipients).rows.map((row) => ({ ...row, place: 'INBOX' }));
        return timed(() => notifications(mongo).insertMany(rows));
      },
      rounds: context.quick ? 2 : 6,
      warmUp: 1,
    });
    return [
      {
        name: `fan-out to ${recipients} recipients`,
        unit: 'ms',
        ours: figuresOf(ours),
        reference: figuresOf(reference),
        against: 'insertMany of the same rows',
        aim: { side: 'most', ratio: 1.3 },
        notes: ['all or nothing for every reader: chunks of 1,000 hidden rows, published by one transaction'],
      },
    ];
  } finally {
    await mongo.db.dropDatabase().catch(() => undefined);
    await mongo.close();
  }
};

/** Returns the fan-out that a front door would plan for a new event. */
function fanOutTo(recipients: number): NewFanOut {
  const now = Date.now();
  const fanOutId = newId(now);
  const input = { sourceService: 'admin-service', sourceEventId: fanOutId, type: 'admin.notification.broadcast.v1' };
  const plan = atOnce(
    planFanOut(
      {
        notifications: Array.from({ length: recipients }, (_, n) => ({
          userId: `student-${n}`,
          type: 'ADMIN_BROADCAST',
          title: 'Thông báo',
          content: 'Trường nghỉ học ngày mai vì bão. Bài thi được dời sang tuần sau.',
        })),
        event: input,
        organizationId: 'org-1',
        preferences: new Map(),
      },
      { fanOutId, now: new Date(now), newId: () => newId(now) },
    ),
  );
  const made = { id: fanOutId, now: new Date(now), created: plan.rows.length, organizationId: 'org-1' };
  return {
    fanOutId,
    now,
    rows: plan.rows,
    staged: plan.staged,
    event: newEvent(input, made),
    deliveries: { channels: new Set(), maxAttempts: 6 },
    finish: newCommand({ ...finishFanOutOrder(fanOutId), maxAttempts: 10, now }),
  };
}
