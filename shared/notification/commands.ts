import type { Order } from '#shared/kernel/command.ts';
import { type Channel, type DispatchRefusal, deliveryJobId } from './delivery.ts';

/** Body, progress and result of the notification service's commands, by queue. */
export type NotificationCommands = Record<`delivery:${Channel}`, DeliveryContent> & {
  /** Moves the rows of a published fan-out to their inboxes. */
  'upkeep:fanouts': {
    body: { fanOutId: string };
    progress: FinishProgress;
    /** `rows` is absent if an earlier run had already finished. */
    result: { fanOutId: string; rows?: number };
  };
  /** Sends the audit service its copy of an event. `sent` is false if the event has reached the end of its retention before. */
  'upkeep:audit': { body: { eventId: string }; progress: null; result: { sent: boolean } };
};

/** Content of a command that delivers one notification over one channel. */
interface DeliveryContent {
  body: DeliveryBody;
  /** The row of the newest delivery attempt that was started. */
  progress: { tryId: string };
  result: { providerId: string | null } | { reason: DispatchRefusal };
}

export interface DeliveryBody {
  notificationId: string;
  userId: string;
  channel: Channel;
}

/** Progress of finishing a fan-out. `movedAt`: when the last row was moved, in Unix milliseconds. */
export type FinishProgress =
  | { phase: 'deliveries'; after: number }
  | { phase: 'rows'; after: number }
  | { phase: 'leave'; movedAt: number };

/** Returns the command of a delivery: one per notification and channel. Its key is also the row's `_id`. */
export function deliveryOrder(body: DeliveryBody): Order<`delivery:${Channel}`, DeliveryBody> {
  return {
    queue: `delivery:${body.channel}`,
    key: deliveryJobId(body.notificationId, body.channel),
    subject: body.notificationId,
    body,
  };
}

/** The recurring command that deletes the rows of fan-outs that were never published. */
export const ORPHANED_FAN_OUTS_SWEEP = { queue: 'upkeep', key: 'upkeep:lost-fan-outs', subject: 'fan-outs' } as const;

/** Returns the command that finishes a fan-out: one per fan-out. */
export function finishFanOutOrder(fanOutId: string): Order<'upkeep:fanouts', { fanOutId: string }> {
  return { queue: 'upkeep:fanouts', key: `fan-out:${fanOutId}`, subject: fanOutId, body: { fanOutId } };
}

/** Returns the command that sends an event to the audit service: one per event. */
export function auditOrder(eventId: string): Order<'upkeep:audit', { eventId: string }> {
  return { queue: 'upkeep:audit', key: `audit:${eventId}`, subject: eventId, body: { eventId } };
}
