import type { Neighbour } from '#infra/config/settings.ts';
import type { CallEnd, Patience, ServiceReply } from '#infra/neighbours/call.ts';
import { sendNotice } from '#infra/neighbours/notification.ts';
import { resolveParents } from '#infra/neighbours/profile.ts';
import type { GradeNotice } from '#shared/attempt/notices.ts';
import type { Queue } from '#shared/kernel/command.ts';
import type { Actor, Outcome, Run, WorkerDeps } from '#workers/actor.ts';

const CAP_MS = 60 * 60_000;

/**
 * Delivers the outbox to the notification service, at least once; the receiver tells a repeat by the row's stable
 * sourceEventId. Parents are resolved here and nowhere else. Rows whose neighbour is not configured are left alone.
 */
export function gradeNoticesActor(deps: WorkerDeps): Actor<GradeNotice> {
  const { notification, profile } = deps.config.neighbours;
  const queues: Queue[] = [];
  if (notification !== null) queues.push('gradenotices:student');
  if (notification !== null && profile !== null) queues.push('gradenotices:parent');
  return {
    name: 'gradenotices',
    queues,
    backoff: { baseMs: deps.config.attempt.outbox.retryBaseMs, capMs: CAP_MS },
    run: (run) => deliver(deps, run),
  };
}

async function deliver(deps: WorkerDeps, run: Run<GradeNotice>): Promise<Outcome> {
  const outcome = await delivery(deps, run);
  // Of both neighbours: only what is set wrong puts a notice back, unspent.
  if (outcome.kind === 'snooze') deps.alarm('notice_misconfigured');
  return outcome;
}

async function delivery(deps: WorkerDeps, { command: { body }, signal }: Run<GradeNotice>): Promise<Outcome> {
  const { notification, profile } = deps.config.neighbours;
  if (notification === null) throw new Error('a notice was claimed without a notification service');
  const patience = { timeoutMs: deps.config.outboundTimeoutMs, signal };
  if (body.recipient === 'STUDENT') return deliverTo(notification, body, [body.studentId], patience);
  if (profile === null) throw new Error('a parent notice was claimed without a profile service');
  const parents = await resolveParents(profile, body, patience);
  switch (parents.kind) {
    case 'parents':
      return deliverTo(notification, body, parents.ids, patience);
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
): Promise<Outcome> {
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
export function noticeOutcome(sent: CallEnd, result: object): Outcome {
  switch (sent.kind) {
    case 'served':
      return { kind: 'done', as: 'DELIVERED', result };
    case 'unanswered':
      return { kind: 'retry', error: noAnswerOf('notification', sent.error) };
    case 'refused':
      return noticeRefusal(sent.reply);
  }
}

function noticeRefusal(reply: ServiceReply): Outcome {
  const error = new Error(`the notification service answered ${reply.status}`);
  if (PERMANENT.has(reply.status)) return { kind: 'dead', error };
  if (MISCONFIGURED.has(reply.status)) return { kind: 'snooze', afterMs: MISCONFIGURED_REST_MS, error };
  return { kind: 'retry', error, ...restAskedFor(reply) };
}

/** A profile service never ends a row: only its own refusal of our token or sender leaves the attempt unspent. */
function profileRefusal(reply: ServiceReply): Outcome {
  if (MISCONFIGURED.has(reply.status)) return noticeRefusal(reply);
  return { kind: 'retry', error: new Error(`the profile service answered ${reply.status}`), ...restAskedFor(reply) };
}

/** `fetch failed` names neither whom nor why: the words are for the operator's list, the reason stays below them. */
function noAnswerOf(service: string, reason: Error): Error {
  return new Error(`the ${service} service gave no whole answer`, { cause: reason });
}

/** The least rest that the answer asks for, as part of a retry. */
function restAskedFor({ retryAfterMs }: ServiceReply): { afterMs?: number } {
  return retryAfterMs === null ? {} : { afterMs: Math.min(retryAfterMs, MAX_WAIT_MS) };
}
