import type { Reply } from '#api/route.ts';
import { eventView } from '#shared/notification/event.ts';
import type { FannedOut } from './fan-out.ts';

/** What the sender of an event is told: what it made, or that it had come before. */
export function intakeReply(made: FannedOut): Reply {
  if (made.replayed) return { status: 200, data: { event: eventView(made.event), created: 0, replayed: true } };
  const { event, plan } = made;
  if (event === null) throw new Error('an event was taken and not stored');
  const { rows, suppressed } = plan;
  return { status: 201, data: { event: eventView(event), created: rows.length, suppressed, replayed: false } };
}
