import { callService } from '#infra/neighbours/call.ts';
import { auditEvent, NOTIFICATION_SERVICE, type NotificationEvent } from '#shared/notification/event.ts';
import type { NotificationDeps } from './deps.ts';

/** Tells the audit service of an event that has just been stored, once, in the background: a failure is counted and changes nothing. */
export function projectToAudit(deps: NotificationDeps, event: NotificationEvent): void {
  const { audit } = deps;
  if (audit === null) return;
  // Small and made now: what waits in the background holds memory.
  const body = auditEvent(event);
  deps.background.run(async () => {
    const reply = await callService({
      method: 'POST',
      url: `${audit.url}/v1/events`,
      sender: NOTIFICATION_SERVICE,
      token: audit.token,
      body,
      timeoutMs: deps.outboundTimeoutMs,
    });
    if (reply.status < 200 || reply.status >= 300) throw new Error(`the audit service answered ${reply.status}`);
  });
}
