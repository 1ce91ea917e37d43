import type { Mongo } from '#infra/mongo/connect.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import type { NewFanOut } from '#infra/mongo/notification/fan-out.ts';
import { openFanOut, stageRows } from '#infra/mongo/notification/stage-fan-out.ts';
import { newId } from '#shared/kernel/ids.ts';
import { settleFanOutOrder } from '#shared/notification/commands.ts';
import { type EventInput, newEvent, sourceEventRef } from '#shared/notification/event.ts';
import { planFanOut } from '#shared/notification/fan-out.ts';
import type { NotificationInput } from '#shared/notification/notification.ts';

/** What a producer brings for so many recipients, `user-0` and on. */
export function recipients(count: number, more: Partial<NotificationInput> = {}): NotificationInput[] {
  return Array.from({ length: count }, (_, n) => ({
    userId: `user-${n}`,
    type: 'ADMIN_BROADCAST',
    title: 'Nghỉ lễ',
    content: 'Trường nghỉ ngày mai.',
    ...more,
  }));
}

export interface FanOutSample {
  rows: number;
  event?: EventInput | null;
  channels?: NewFanOut['deliveries']['channels'];
  more?: Partial<NotificationInput>;
  now?: number;
  /** Fewer rows in one transaction: the staging of a large fan-out at a small one's price. */
  rowsAtOnce?: number;
  /** How long one that stages the same event may stand still. */
  stalledMs?: number;
}

/** Stages a fan-out and goes no further: as a front door that ended before it could publish. */
export async function stageOnly(mongo: Mongo, fanOut: NewFanOut): Promise<void> {
  const { fanOutId, rows, now, event } = fanOut;
  const source = event === null ? null : sourceEventRef(event);
  await openFanOut(mongo, { fanOutId, source, rows: rows.length, now });
  await stageRows(mongo, fanOut);
}

/** A fan-out as a front door decides it: an event of its own, no preferences, no channel unless said. */
export function sampleFanOut(sample: FanOutSample): NewFanOut {
  const { rows, event, channels, more, rowsAtOnce, stalledMs, now = Date.now() } = sample;
  const fanOutId = newId(now);
  const bound = rowsAtOnce === undefined ? {} : { rowsAtOnce };
  const source: EventInput | null =
    event === undefined
      ? { sourceService: 'admin-service', sourceEventId: fanOutId, type: 'admin.broadcast.v1' }
      : event;
  const plan = planFanOut(
    { notifications: recipients(rows, more), event: source, organizationId: null, preferences: new Map() },
    { fanOutId, now: new Date(now), newId: () => newId(now), ...bound },
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
    settle: newCommand({ ...settleFanOutOrder(fanOutId), maxAttempts: 10, now }),
  };
}
