import type { Neighbour } from '#infra/config/settings.ts';
import type { CallEnd, CallLimits, ServiceReply } from '#infra/neighbours/call.ts';
import { sendNotice } from '#infra/neighbours/notification.ts';
import { resolveParents } from '#infra/neighbours/profile.ts';
import type { GradeNotice } from '#shared/attempt/notices.ts';
import type { Actor, Handlers, Outcome, WorkerDeps } from '#workers/actor.ts';

type NoticeOutcome = Outcome<'gradenotices:student' | 'gradenotices:parent'>;

const CAP_MS = 60 * 60_000;

/**
 * Delivers the outbox to the notification service, at least once; the receiver recognises a repeat by the row's stable
 * sourceEventId. Only this actor resolves parents. Rows whose neighbour is not configured stay unclaimed.
 */
export function gradeNoticesActor(deps: WorkerDeps): Actor {
  const { notification, profile } = deps.config.neighbours;
  const { outboundTimeoutMs: timeoutMs } = deps.config;
  const handlers: Handlers = {};
  if (notification !== null) {
    handlers['gradenotices:student'] = ({ command: { body }, signal }) =>
      watched(deps, deliverTo(notification, body, [body.studentId], { timeoutMs, signal }));
  }
  if (notification !== null && profile !== null) {
    handlers['gradenotices:parent'] = ({ command: { body }, signal }) =>
      watched(deps, deliverToParents(notification, profile, body, { timeoutMs, signal }));
  }
  return {
    name: 'gradenotices',
    handlers,
    backoff: { baseMs: deps.config.attempt.outbox.retryBaseMs, capMs: CAP_MS },
  };
}

/** Counts an alarm for a misconfigured neighbour, the only cause for which a notice is snoozed. */
async function watched(deps: WorkerDeps, delivery: Promise<NoticeOutcome>): Promise<NoticeOutcome> {
  const outcome = await delivery;
  if (outcome.kind === 'snooze') deps.alarm('notice_misconfigured');
  return outcome;
}

async function deliverToParents(
  notification: Neighbour,
  profile: Neighbour,
  notice: GradeNotice,
  limits: CallLimits,
): Promise<NoticeOutcome> {
  const parents = await resolveParents(profile, notice, limits);
  switch (parents.kind) {
    case 'parents':
      return deliverTo(notification, notice, parents.ids, limits);
    case 'unreadable':
      return { kind: 'retry', error: new Error('the profile service returned no list of parent ids') };
    case 'refused':
      return profileRefusal(parents.reply);
    case 'unanswered':
      return { kind: 'retry', error: noAnswerOf('profile', parents.error) };
  }
}

async function deliverTo(
  notification: Neighbour,
  notice: GradeNotice,
  recipients: readonly string[],
  limits: CallLimits,
): Promise<NoticeOutcome> {
  const result = { recipients: recipients.length };
  if (recipients.length === 0) return { kind: 'done', as: 'DELIVERED', result };
  return noticeOutcome(await sendNotice(notification, notice, recipients, limits), result);
}

/** Statuses with which the receiver refuses the row for good. A retry cannot help. */
const PERMANENT = new Set([400, 413, 422]);
/** Statuses of a wrong token, sender or address. The configuration is at fault, so the row's attempts must not be spent. */
const MISCONFIGURED = new Set([401, 403, 404, 405]);
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
  const error = new Error(`the notification service answered ${reply.status}`);
  if (PERMANENT.has(reply.status)) return { kind: 'dead', error };
  if (MISCONFIGURED.has(reply.status)) return { kind: 'snooze', afterMs: MISCONFIGURED_WAIT_MS, error };
  return { kind: 'retry', error, ...requestedDelay(reply) };
}

/** Maps a refusal by the profile service, which never ends a row. A refused token, sender or address spends no attempt. */
function profileRefusal(reply: ServiceReply): NoticeOutcome {
  const error = new Error(`the profile service answered ${reply.status}`);
  if (MISCONFIGURED.has(reply.status)) return { kind: 'snooze', afterMs: MISCONFIGURED_WAIT_MS, error };
  return { kind: 'retry', error, ...requestedDelay(reply) };
}

/** Names the service in the operator's list, because `fetch failed` names neither service nor reason. The reason stays as `cause`. */
function noAnswerOf(service: string, reason: Error): Error {
  return new Error(`the ${service} service sent no complete reply`, { cause: reason });
}

/** Returns the wait that the reply's `Retry-After` requests, up to MAX_WAIT_MS, as part of a retry. */
function requestedDelay({ retryAfterMs }: ServiceReply): { afterMs?: number } {
  return retryAfterMs === null ? {} : { afterMs: Math.min(retryAfterMs, MAX_WAIT_MS) };
}
