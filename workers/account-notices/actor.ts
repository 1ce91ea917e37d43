import type { Neighbour } from '#infra/config/settings.ts';
import type { CallLimits } from '#infra/neighbours/call.ts';
import { sendAccountNotice } from '#infra/neighbours/events.ts';
import type { AccountNotice } from '#shared/auth/notices.ts';
import type { Actor, Handlers, WorkerDeps } from '#workers/actor.ts';
import { NOTICE_BACKOFF_CAP_MS, type NoticeOutcome, noticeOutcome, watched } from '#workers/notice-outcome.ts';

/**
 * Notifies the owners of accounts of changed passwords and reused tokens, at least once. The receiver recognises a repeat by the id of
 * the security event. While the notification service is not configured, the commands stay unclaimed.
 */
export function accountNoticesActor(deps: WorkerDeps): Actor {
  const { neighbours, notification, outboundTimeoutMs: timeoutMs, attempt } = deps.config;
  const handlers: Handlers = {};
  if (neighbours.notification !== null) {
    // The notification service distinguishes its senders, so that this one has a token of its own.
    const service = { url: neighbours.notification.url, token: notification.senderTokens['auth-service']?.[0] };
    handlers.accountnotices = ({ command: { body }, signal }) =>
      watched(deps, deliver(service, body, { timeoutMs, signal }));
  }
  return {
    name: 'accountnotices',
    handlers,
    backoff: { baseMs: attempt.outbox.retryBaseMs, capMs: NOTICE_BACKOFF_CAP_MS },
  };
}

async function deliver(service: Neighbour, notice: AccountNotice, limits: CallLimits): Promise<NoticeOutcome> {
  return noticeOutcome(await sendAccountNotice(service, notice, limits), { recipients: 1 });
}
