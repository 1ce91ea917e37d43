import type { NotificationDeps } from '#api/notification/deps.ts';
import { fanOut } from '#api/notification/fan-out.ts';
import { intakeReply } from '#api/notification/intake-reply.ts';
import type { Call, Reply } from '#api/route.ts';
import type { IntakeRequest } from '#shared/generated/notification.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { sourcePairFaults } from '#shared/notification/weak-topic.ts';

/** An event of the producer that sends it, with the notifications that it makes. */
export async function takeEvent(deps: NotificationDeps, call: Call<IntakeRequest>): Promise<Reply | Rejection> {
  const { notifications, ...event } = call.body;
  const details = sourcePairFaults(event);
  if (details.length > 0) return { rejected: 'VALIDATION_FAILED', details };
  const { sender, organizationId = null } = call.identity;
  if (event.sourceService != null && event.sourceService !== sender) {
    return { rejected: 'NOTIFICATION_SOURCE_MISMATCH' };
  }
  return intakeReply(await fanOut(deps, { notifications: notifications ?? [], event, organizationId }));
}
