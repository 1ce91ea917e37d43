import type { WeakTopicRequest } from '../../../shared/generated/notification.ts';
import type { Rejection } from '../../../shared/kernel/errors.ts';
import { recipientFaults } from '../../../shared/notification/request-faults.ts';
import { weakTopicFanOut } from '../../../shared/notification/weak-topic.ts';
import type { Call, Reply } from '../../route.ts';
import type { NotificationDeps } from '../deps.ts';
import { fanOut } from '../fan-out.ts';
import { intakeReply } from '../intake-reply.ts';

/** A weak topic becomes one alert for each parent, once. */
export async function raiseWeakTopic(deps: NotificationDeps, call: Call<WeakTopicRequest>): Promise<Reply | Rejection> {
  const details = recipientFaults(call.body);
  if (details.length > 0) return { rejected: 'VALIDATION_FAILED', details };
  const { organizationId = null } = call.identity;
  return intakeReply(await fanOut(deps, { ...weakTopicFanOut(call.body), organizationId }));
}
