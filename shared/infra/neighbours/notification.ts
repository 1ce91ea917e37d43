import type { Neighbour } from '#infra/config/settings.ts';
import { ATTEMPT_SERVICE, type GradeNotice, intakeBody } from '#shared/attempt/notices.ts';
import { type AccountNotice, AUTH_SERVICE, accountBatchBody } from '#shared/auth/notices.ts';
import { type CallEnd, type CallLimits, callService, endOfCall, postEvent } from './call.ts';

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

/**
 * Sends a notice to the owner of an account. The notification service recognizes a repeat by the notice's `eventId`.
 *
 * @throws the signal's reason, if the signal was aborted
 */
export function sendAccountNotice(service: Neighbour, notice: AccountNotice, limits: CallLimits): Promise<CallEnd> {
  const { url, token, called } = service;
  const body = accountBatchBody(notice);
  const call = callService({
    method: 'POST',
    url: `${url}/v1/notifications/batch`,
    sender: AUTH_SERVICE,
    token,
    called,
    body,
    ...limits,
  });
  return endOfCall(call, limits.signal);
}
