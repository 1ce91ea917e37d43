import type { Neighbour } from '#infra/config/settings.ts';
import type { CallEnd, Patience, ServiceReply } from '#infra/neighbours/call.ts';
import { sendNotice } from '#infra/neighbours/notification.ts';
import { resolveParents } from '#infra/neighbours/profile.ts';
import type { GradeNotice } from '#shared/attempt/notices.ts';
import type { Actor, Handlers, Outcome, WorkerDeps } from '#workers/actor.ts';

type NoticeOutcome = Outcome<'gradenotices:student' | 'gradenotices:parent'>;

const CAP_MS = 60 * 60_000;

/**
 * Delivers the outbox to the notification service, at least once; the receiver tells a repeat by the row's stable
 * sourceEventId. Parents are resolved here and nowhere else. Rows whose neighbour is not configured are left alone.
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

/** Alarms the operator of a misconfigured neighbour: nothing else puts a notice back, unspent. */
async function watched(deps: WorkerDeps, delivery: Promise<NoticeOutcome>): Promise<NoticeOutcome> {
  const outcome = await delivery;
  if (outcome.kind === 'snooze') deps.alarm('notice_misconfigured');
  return outcome;
}

async function deliverToParents(
  notification: Neighbour,
  profile: Neighbour,
  notice: GradeNotice,
  patience: Patience,
): Promise<NoticeOutcome> {
  const parents = await resolveParents(profile, notice, patience);
  switch (parents.kind) {
    case 'parents':
      return deliverTo(notification, notice, parents.ids, patience);
    case 'unreadable':
      return { kind: 'retry', error: new Error('the profile service answered no list of parent ids') };
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
  patience: Patience,
): Promise<NoticeOutcome> {
  const result = { recipients: recipients.length };
  if (recipients.length === 0) return { kind: 'done', as: 'DELIVERED', result };
  return noticeOutcome(await sendNotice(notification, notice, recipients, patience), result);
}

/** The receiver will never take this row: trying again cannot help. */
const PERMANENT = new Set([400, 413, 422]);
/** Token, sender or address are set wrong: an operator's fault, which must not use up the row's attempts. */
const MISCONFIGURED = new Set([401, 403, 404, 405]);
const MISCONFIGURED_REST_MS = 60_000;
/** A service may ask for more patience than the schedule has, up to here. */
const MAX_WAIT_MS = 60 * 60_000;

/** What the end of a delivery means for its outbox row. No answer spends the attempt, whatever its cause. */
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
  if (MISCONFIGURED.has(reply.status)) return { kind: 'snooze', afterMs: MISCONFIGURED_REST_MS, error };
  return { kind: 'retry', error, ...restAskedFor(reply) };
}

/** A profile service never ends a row: only its own refusal of our token or sender leaves the attempt unspent. */
function profileRefusal(reply: ServiceReply): NoticeOutcome {
  const error = new Error(`the profile service answered ${reply.status}`);
  if (MISCONFIGURED.has(reply.status)) return { kind: 'snooze', afterMs: MISCONFIGURED_REST_MS, error };
  return { kind: 'retry', error, ...restAskedFor(reply) };
}

/** `fetch failed` names neither whom nor why: the words are for the operator's list, the reason stays below them. */
function noAnswerOf(service: string, reason: Error): Error {
  return new Error(`the ${service} service gave no whole answer`, { cause: reason });
}

/** The least rest that the answer asks for, as part of a retry. */
function restAskedFor({ retryAfterMs }: ServiceReply): { afterMs?: number } {
  return retryAfterMs === null ? {} : { afterMs: Math.min(retryAfterMs, MAX_WAIT_MS) };
}
