import type { Neighbour } from '#infra/config/settings.ts';
import type { AnalyticsEvent } from '#shared/attempt/analytics.ts';
import { ATTEMPT_SERVICE, type GradeNotice, intakeBody } from '#shared/attempt/notices.ts';
import { type AccountNotice, AUTH_SERVICE, accountBatchBody } from '#shared/auth/notices.ts';
import { type AuditEvent, NOTIFICATION_SERVICE } from '#shared/notification/event.ts';
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

/**
 * Sends one event to the analytics service, which recognizes a repeat by the event's stable id.
 *
 * @throws the signal's reason, if the signal was aborted
 */
export function sendToAnalytics(service: Neighbour, event: AnalyticsEvent, limits: CallLimits): Promise<CallEnd> {
  return endOfCall(postEvent(service, { sender: ATTEMPT_SERVICE, body: event }, limits), limits.signal);
}

/**
 * Sends one event to the audit service, which recognizes a repeat by the event's id.
 *
 * @throws the signal's reason, if the signal was aborted
 */
export function sendToAudit(service: Neighbour, event: AuditEvent, limits: CallLimits): Promise<CallEnd> {
  return endOfCall(postEvent(service, { sender: NOTIFICATION_SERVICE, body: event }, limits), limits.signal);
}
