import type { Neighbour } from '#infra/config/settings.ts';
import { ATTEMPT_SERVICE, type GradeNotice, intakeBody } from '#shared/attempt/notices.ts';
import { type CallEnd, type CallLimits, endOfCall, postEvent } from './call.ts';

/**
 * Sends a grade notice for these recipients to the notification service, which recognizes a repeat by the notice's `sourceEventId`.
 *
 * @throws the signal's reason, if the signal was aborted
 */
export function sendNotice(
  service: Neighbour,
  notice: GradeNotice,
  recipientIds: readonly string[],
  limits: CallLimits,
): Promise<CallEnd> {
  const body = intakeBody(notice, recipientIds);
  const call = postEvent(service, { path: '/notification', sender: ATTEMPT_SERVICE, body }, limits);
  return endOfCall(call, limits.signal);
}
