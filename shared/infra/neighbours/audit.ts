import type { Neighbour } from '#infra/config/settings.ts';
import { type AuditEvent, NOTIFICATION_SERVICE } from '#shared/notification/event.ts';
import { type CallLimits, isSuccess, postEvent } from './call.ts';

/**
 * Sends one event to the audit service.
 *
 * @throws if the service does not accept it
 */
export async function sendToAudit(service: Neighbour, event: AuditEvent, limits: CallLimits): Promise<void> {
  const reply = await postEvent(service, { sender: NOTIFICATION_SERVICE, body: event }, limits);
  if (!isSuccess(reply)) throw new Error(`the audit service answered ${reply.status}`);
}
