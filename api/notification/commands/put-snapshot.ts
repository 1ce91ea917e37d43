import type { NotificationDeps } from '#api/notification/deps.ts';
import type { Call, Reply } from '#api/route.ts';
import { putSnapshot } from '#infra/mongo/notification/inbox-changes.ts';
import type { SnapshotRequest } from '#shared/generated/notification.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { notificationView } from '#shared/notification/notification.ts';
import { newFromSnapshot, readSnapshot } from '#shared/notification/snapshot.ts';

/** Stores a notification as another system has it. Nobody is told of it over any channel: they were, by that system. */
export async function storeSnapshot(deps: NotificationDeps, call: Call<SnapshotRequest>): Promise<Reply | Rejection> {
  const snapshot = readSnapshot(call.params.notificationId ?? '', call.body);
  const { organizationId = null } = call.identity;
  const now = new Date(deps.now());
  const stored = await putSnapshot(deps.mongo, snapshot, (first) => newFromSnapshot(first, { now, organizationId }));
  if (stored === 'another-owner') return { rejected: 'NOTIFICATION_OWNER_MISMATCH' };
  deps.wake([snapshot.userId]);
  return { status: stored.created ? 201 : 200, data: { notification: notificationView(stored.notification) } };
}
