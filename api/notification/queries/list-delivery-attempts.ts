import { callerOf, ownerIn } from '#api/notification/caller.ts';
import type { NotificationDeps } from '#api/notification/deps.ts';
import { pagedData, pageOf } from '#api/notification/page.ts';
import type { Call, Reply } from '#api/route.ts';
import { listDeliveryAttempts } from '#infra/mongo/notification/delivery-attempts.ts';
import type { DeliveryAttemptQuery } from '#shared/generated/notification.ts';
import { instantOf } from '#shared/kernel/time.ts';
import { deliveryAttemptView } from '#shared/notification/delivery.ts';

/** A page of tries to deliver the caller's notifications; for an ADMIN anybody's. */
export async function showDeliveryAttempts(
  deps: NotificationDeps,
  call: Call<unknown, DeliveryAttemptQuery>,
): Promise<Reply> {
  const { query } = call;
  const page = pageOf(query);
  const wanted = {
    userId: ownerIn('role', callerOf(call.identity)) ?? query.userId ?? null,
    notificationId: query.notificationId ?? null,
    organizationId: query.organizationId ?? null,
    channel: query.channel ?? null,
    provider: query.provider ?? null,
    status: query.status ?? null,
    from: instantOf(query.from),
    to: instantOf(query.to),
  };
  const { rows, total } = await listDeliveryAttempts(deps.mongo, wanted, page);
  return { status: 200, data: pagedData(rows.map(deliveryAttemptView), page, total) };
}
