import type { NotificationDeps } from '#api/notification/deps.ts';
import { fanOut } from '#api/notification/fan-out.ts';
import type { Call, Reply } from '#api/route.ts';
import { idsOfFanOut } from '#infra/mongo/notification/fan-out.ts';
import type { BatchRequest } from '#shared/generated/notification.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { eventView } from '#shared/notification/event.ts';
import { sourcePairFaults } from '#shared/notification/weak-topic.ts';

/** Many notifications at once, all or none; with an event of a producer they are made once, however often they are sent. */
export async function createBatch(deps: NotificationDeps, call: Call<BatchRequest>): Promise<Reply | Rejection> {
  const { notifications, event = null } = call.body;
  const { sender, organizationId = null } = call.identity;
  if (event !== null) {
    const details = sourcePairFaults(event, '/event');
    if (details.length > 0) return { rejected: 'VALIDATION_FAILED', details };
    // An admin may bring any producer's; a service only its own.
    const isForeign = event.sourceService != null && sender !== undefined && event.sourceService !== sender;
    if (isForeign) return { rejected: 'NOTIFICATION_SOURCE_MISMATCH' };
  }
  const made = await fanOut(deps, { notifications, event, organizationId });
  if (made.replayed) {
    const ids = await idsOfFanOut(deps.mongo, made.event._id);
    return { status: 200, data: { created: 0, suppressed: [], notifications: ids, event: eventView(made.event) } };
  }
  const { rows, suppressed } = made.plan;
  const ids = rows.map(({ _id }) => _id);
  const stored = made.event === null ? null : eventView(made.event);
  return { status: 201, data: { created: ids.length, suppressed, notifications: ids, event: stored } };
}
