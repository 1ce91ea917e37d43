import type { Neighbour } from '#infra/config/settings.ts';
import { type AuditEvent, NOTIFICATION_SERVICE } from '#shared/notification/event.ts';
import { type CallEnd, type CallLimits, endOfCall, postEvent } from './call.ts';

/**
 * Sends one event to the audit service, which recognizes a repeat by the event's id.
 *
 * @throws the signal's reason, if the signal was aborted
 */
export function sendToAudit(service: Neighbour, event: AuditEvent, limits: CallLimits): Promise<CallEnd> {
  return endOfCall(postEvent(service, { sender: NOTIFICATION_SERVICE, body: event }, limits), limits.signal);
}
