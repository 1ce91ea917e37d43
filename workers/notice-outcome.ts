import type { CallEnd, ServiceReply } from '#infra/neighbours/call.ts';
import { coded, refusalIn, refusedBy } from '#shared/kernel/failure.ts';
import type { Outcome } from './actor.ts';

/** Outcome of a command that sends a notice: of any queue whose result is the number of recipients. */
export type NoticeOutcome = Outcome<'gradenotices:student' | 'gradenotices:parent' | 'accountnotices'>;

/** Upper bound of the backoff between two delivery attempts of a notice. */
export const NOTICE_BACKOFF_CAP_MS = 60 * 60_000;

/** Statuses with which the receiver refuses the row for good. A retry cannot help. */
const PERMANENT = new Set([400, 413, 422]);
/** Wait after a refused token, sender or address. The configuration is at fault, so the row's attempts must not be spent. */
const MISCONFIGURED_WAIT_MS = 60_000;
/** Upper bound for a `Retry-After` that exceeds our backoff. */
const MAX_WAIT_MS = 60 * 60_000;

/** Maps the end of a call to the outcome of its outbox row. A missing reply spends the attempt, whatever its cause. */
export function noticeOutcome(sent: CallEnd, result: { recipients: number }): NoticeOutcome {
  switch (sent.kind) {
    case 'served':
      return { kind: 'done', as: 'DELIVERED', result };
    case 'unanswered':
      return { kind: 'retry', error: noAnswerOf('notification', sent.error) };
    case 'refused':
      return noticeRefusal(sent.reply);
  }
}

function noticeRefusal(reply: ServiceReply): NoticeOutcome {
  const message = `the notification service answered ${reply.status}`;
  if (PERMANENT.has(reply.status)) return { kind: 'dead', error: coded('RECEIVER_REFUSED', message) };
  return refusedOrBusy('notification', reply);
}

/** Maps a refusal by the profile service, which never ends a row. A refused token, sender or address spends no attempt. */
export function profileRefusal(reply: ServiceReply): NoticeOutcome {
  return refusedOrBusy('profile', reply);
}

function refusedOrBusy(service: string, reply: ServiceReply): NoticeOutcome {
  const error = answered(service, reply);
  if (refusalIn(error) !== null) return { kind: 'snooze', afterMs: MISCONFIGURED_WAIT_MS, error };
  return { kind: 'retry', error, ...requestedDelay(reply) };
}

/** Returns the error of a reply other than 2xx, which names the service and its status. */
export function answered(service: string, { status }: Pick<ServiceReply, 'status'>): Error {
  return refusedBy(new Error(`the ${service} service answered ${status}`), { service, status });
}

/** Names the service in the operator's list, because `fetch failed` names neither service nor reason. The reason stays as `cause`. */
export function noAnswerOf(service: string, reason: Error): Error {
  return new Error(`the ${service} service sent no complete reply`, { cause: reason });
}

/** Returns the wait that the reply's `Retry-After` requests, up to MAX_WAIT_MS, as part of a retry. */
function requestedDelay({ retryAfterMs }: ServiceReply): { afterMs?: number } {
  return retryAfterMs === null ? {} : { afterMs: Math.min(retryAfterMs, MAX_WAIT_MS) };
}

/** Counts an alarm for a misconfigured neighbour, the only cause for which a notice is snoozed. */
export async function watched(
  deps: { alarm: (name: 'notice_misconfigured') => void },
  delivery: Promise<NoticeOutcome>,
): Promise<NoticeOutcome> {
  const outcome = await delivery;
  if (outcome.kind === 'snooze') deps.alarm('notice_misconfigured');
  return outcome;
}
