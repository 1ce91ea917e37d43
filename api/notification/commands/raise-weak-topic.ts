import type { NotificationDeps } from '#api/notification/deps.ts';
import { fanOut } from '#api/notification/fan-out.ts';
import { intakeReply } from '#api/notification/intake-reply.ts';
import type { Call, Reply } from '#api/route.ts';
import type { WeakTopicRequest } from '#shared/generated/notification.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { recipientFaults, weakTopicFanOut } from '#shared/notification/weak-topic.ts';

/** A weak topic becomes one alert for each parent, once. */
export async function raiseWeakTopic(deps: NotificationDeps, call: Call<WeakTopicRequest>): Promise<Reply | Rejection> {
  const details = recipientFaults(call.body);
  if (details.length > 0) return { rejected: 'VALIDATION_FAILED', details };
  const { organizationId = null } = call.identity;
  return intakeReply(await fanOut(deps, { ...weakTopicFanOut(call.body), organizationId }));
}
