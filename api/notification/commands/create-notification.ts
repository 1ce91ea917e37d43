import type { NotificationDeps } from '#api/notification/deps.ts';
import { ringFor } from '#api/notification/ring-for.ts';
import type { Call, Reply } from '#api/route.ts';
import { insertNotification } from '#infra/mongo/notification/inbox-changes.ts';
import { preferencesOf } from '#infra/mongo/notification/preferences.ts';
import type { CreateRequest } from '#shared/generated/notification.ts';
import { newId } from '#shared/kernel/ids.ts';
import { newNotification, notificationView } from '#shared/notification/notification.ts';
import { preferenceKey, suppressionOf } from '#shared/notification/preferences.ts';

/** One notification for one recipient, unless that one does not want it. */
export async function createOneNotification(deps: NotificationDeps, call: Call<CreateRequest>): Promise<Reply> {
  const input = call.body;
  const [wanted] = (await preferencesOf(deps.mongo, [input.userId])).values();
  const now = deps.now();
  const reason = suppressionOf(wanted ?? null, preferenceKey(input), new Date(now));
  if (reason !== null) {
    const suppressed = [{ userId: input.userId, reason }];
    return { status: 200, data: { notification: null, created: 0, suppressed } };
  }
  const origin = { fanOutId: null, sourceEventRef: null, organizationId: call.identity.organizationId ?? null };
  const row = newNotification(input, { id: newId(now), now: new Date(now), place: 'INBOX', ordinal: 0, origin });
  const deliveries = { channels: deps.channels, maxAttempts: deps.deliveryAttempts };
  ringFor(deps, await insertNotification(deps.mongo, row, { deliveries, now }));
  deps.wake([row.userId]);
  return { status: 201, data: { notification: notificationView(row), created: 1 } };
}
