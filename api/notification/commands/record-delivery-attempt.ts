import type { NotificationDeps } from '#api/notification/deps.ts';
import type { Call, Reply } from '#api/route.ts';
import { insertDeliveryAttempt } from '#infra/mongo/notification/delivery-attempts.ts';
import type { DeliveryAttemptRequest } from '#shared/generated/notification.ts';
import { newId } from '#shared/kernel/ids.ts';
import { deliveryAttemptView, recordedAttempt } from '#shared/notification/delivery.ts';

/** Keeps what another service tells of a try of its own. */
export async function recordDeliveryAttempt(
  deps: NotificationDeps,
  call: Call<DeliveryAttemptRequest>,
): Promise<Reply> {
  const now = deps.now();
  const { organizationId = null } = call.identity;
  const made = { id: newId(now), now: new Date(now), organizationId };
  const attempt = await insertDeliveryAttempt(deps.mongo, recordedAttempt(call.body, made));
  return { status: 201, data: { deliveryAttempt: deliveryAttemptView(attempt) } };
}
