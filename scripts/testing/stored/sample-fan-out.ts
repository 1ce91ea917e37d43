import type { Mongo } from '#infra/mongo/connect.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { fanOuts } from '#infra/mongo/notification/collections.ts';
import type { NewFanOut } from '#infra/mongo/notification/fan-out.ts';
import { openFanOut, stageRows } from '#infra/mongo/notification/stage-fan-out.ts';
import { newId } from '#shared/kernel/ids.ts';
import { atOnce } from '#shared/kernel/pieces.ts';
import { finishFanOutOrder } from '#shared/notification/commands.ts';
import { type EventInput, newEvent, sourceEventRef } from '#shared/notification/event.ts';
import { type FanOut, planFanOut } from '#shared/notification/fan-out.ts';
import type { NotificationInput } from '#shared/notification/notification.ts';

/** Returns the notifications of a producer for `count` recipients, `user-0` and so on. */
export function recipients(count: number, more: Partial<NotificationInput> = {}): NotificationInput[] {
  return Array.from({ length: count }, (_, n) => ({
    userId: `user-${n}`,
    type: 'ADMIN_BROADCAST',
    title: 'Nghỉ lễ',
    content: 'Trường nghỉ ngày mai.',
    ...more,
  }));
}

interface FanOutSample {
  rows: number;
  event?: EventInput | null;
  channels?: NewFanOut['deliveries']['channels'];
  now?: number;
  /** Rows in one transaction. A small number stages a small fan-out like a large one. */
  rowsAtOnce?: number;
  /** Milliseconds without progress after which another fan-out of the same event counts as stalled. */
  stalledMs?: number;
}

/** Stages a fan-out without publishing it, as a front door that ended in between would leave it. */
export async function stageOnly(mongo: Mongo, fanOut: NewFanOut): Promise<void> {
  const { fanOutId, rows, now, event } = fanOut;
  const source = event === null ? null : sourceEventRef(event);
  await openFanOut(mongo, { fanOutId, source, rows: rows.length, now });
  await stageRows(mongo, fanOut);
}

/** Returns a fan-out as a front door plans it. Defaults: a new event, no preferences, no channels. */
export function sampleFanOut(sample: FanOutSample): NewFanOut {
  const { rows, event, channels, rowsAtOnce, stalledMs, now = Date.now() } = sample;
  const fanOutId = newId(now);
  const bound = rowsAtOnce === undefined ? {} : { rowsAtOnce };
  const source: EventInput | null =
    event === undefined
      ? { sourceService: 'admin-service', sourceEventId: fanOutId, type: 'admin.broadcast.v1' }
      : event;
  const plan = atOnce(
    planFanOut(
      { notifications: recipients(rows), event: source, organizationId: null, preferences: new Map() },
      { fanOutId, now: new Date(now), newId: () => newId(now), ...bound },
    ),
  );
  const made = { id: fanOutId, now: new Date(now), created: plan.rows.length, organizationId: null };
  return {
    fanOutId,
    now,
    rows: plan.rows,
    staged: plan.staged,
    ...bound,
    ...(stalledMs === undefined ? {} : { stalledMs }),
    event: source === null ? null : newEvent(source, made),
    deliveries: { channels: channels ?? new Set(), maxAttempts: 6 },
    finish: newCommand({ ...finishFanOutOrder(fanOutId), maxAttempts: 10, now }),
  };
}

/** Stores fan-outs of one row in these states, as `fan-out-1` and so on. */
export async function storeFanOutStates(mongo: Mongo, states: readonly FanOut['state'][]): Promise<void> {
  const common = { source: null, rows: 1, staged: 1, stageBy: new Date(), publishedAt: null };
  await fanOuts(mongo).insertMany(states.map((state, n) => ({ _id: `fan-out-${n + 1}`, state, ...common })));
}
