import type { Neighbour } from '#infra/config/settings.ts';
import { ATTEMPT_SERVICE, type GradeNotice, intakeBody } from '#shared/attempt/notices.ts';
import { type CallEnd, endOfCall, type Patience, postEvent } from './call.ts';

/**
 * Sends a grade notice for these recipients to the notification service, which recognizes a repeat by the notice's `sourceEventId`.
 *
 * @throws the signal's reason, if the signal was aborted
 */
export function sendNotice(
  service: Neighbour,
  notice: GradeNotice,
  recipientIds: readonly string[],
  patience: Patience,
): Promise<CallEnd> {
  const body = intakeBody(notice, recipientIds);
  const call = postEvent(service, { path: '/notification', sender: ATTEMPT_SERVICE, body }, patience);
  return endOfCall(call, patience.signal);
}
