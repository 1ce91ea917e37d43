import type { Order } from '#shared/kernel/command.ts';
import { type Channel, type DispatchRefusal, deliveryJobId } from './delivery.ts';

/** What the commands of the notification service carry, by queue: the body, how far a run has come, and the result. */
export type NotificationCommands = Record<`delivery:${Channel}`, DeliveryContent> & {
  /** Moves the rows of a published fan-out to their inboxes. */
  'upkeep:fanouts': {
    body: { fanOutId: string };
    progress: SettleProgress;
    /** `rows` is absent where an earlier run had finished. */
    result: { fanOutId: string; rows?: number };
  };
};

/** Takes one notification over one channel. */
interface DeliveryContent {
  body: DeliveryBody;
  /** The row of the newest try that was begun. */
  progress: { tryId: string };
  result: { providerId: string | null } | { reason: DispatchRefusal };
}

export interface DeliveryBody {
  notificationId: string;
  userId: string;
  channel: Channel;
}

/** How far the settling of a fan-out has come. `movedAt`: when the last row was moved, in Unix milliseconds. */
export type SettleProgress =
  | { phase: 'deliveries'; after: number }
  | { phase: 'rows'; after: number }
  | { phase: 'leave'; movedAt: number };

/** One delivery per notification and channel; its key is the row's `_id` too. */
export function deliveryOrder(body: DeliveryBody): Order<`delivery:${Channel}`, DeliveryBody> {
  return {
    queue: `delivery:${body.channel}`,
    key: deliveryJobId(body.notificationId, body.channel),
    subject: body.notificationId,
    body,
  };
}

/** The recurring command that deletes the rows of fan-outs that were never published. */
export const LOST_FAN_OUTS_SWEEP = { queue: 'upkeep', key: 'upkeep:lost-fan-outs', subject: 'fan-outs' } as const;

/** One settling per fan-out. */
export function settleFanOutOrder(fanOutId: string): Order<'upkeep:fanouts', { fanOutId: string }> {
  return { queue: 'upkeep:fanouts', key: `fan-out:${fanOutId}`, subject: fanOutId, body: { fanOutId } };
}
