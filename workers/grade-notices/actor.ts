import type { Neighbour } from '#infra/config/settings.ts';
import { callService, type ServiceReply } from '#infra/neighbours/call.ts';
import { ATTEMPT_SERVICE, type GradeNotice, intakeBody } from '#shared/attempt/notices.ts';
import { isJsonObject } from '#shared/kernel/json-object.ts';
import type { Actor, Handlers, Outcome, Run, WorkerDeps } from '#workers/actor.ts';

type NoticeQueue = 'gradenotices:student' | 'gradenotices:parent';
type NoticeRun = Run<NoticeQueue>;

const CAP_MS = 60 * 60_000;

/**
 * Delivers the outbox to the notification service, at least once; the receiver tells a repeat by the row's stable
 * sourceEventId. Parents are resolved here and nowhere else. Rows whose neighbour is not configured are left alone.
 */
export function gradeNoticesActor(deps: WorkerDeps): Actor {
  const { notification, profile } = deps.config.neighbours;
  const handlers: Handlers = {};
  if (notification !== null) handlers['gradenotices:student'] = (run) => deliver(deps, run);
  if (notification !== null && profile !== null) handlers['gradenotices:parent'] = (run) => deliver(deps, run);
  return {
    name: 'gradenotices',
    handlers,
    backoff: { baseMs: deps.config.attempt.outbox.retryBaseMs, capMs: CAP_MS },
  };
}

async function deliver(deps: WorkerDeps, run: NoticeRun): Promise<Outcome<NoticeQueue>> {
  const outcome = await delivery(deps, run);
  // Of both neighbours: only what is set wrong puts a notice back, unspent.
  if (outcome.kind === 'snooze') deps.alarm('notice_misconfigured');
  return outcome;
}

async function delivery(deps: WorkerDeps, { command, signal }: NoticeRun): Promise<Outcome<NoticeQueue>> {
  const { notification } = deps.config.neighbours;
  if (notification === null) throw new Error('a notice was claimed without a notification service');
  const recipients = await recipientsOf(deps, command, signal);
  if ('kind' in recipients) return recipients;
  if (recipients.ids.length === 0) return { kind: 'done', as: 'DELIVERED', result: { recipients: 0 } };
  const sent = await send(deps, notification, command.body, recipients.ids, signal);
  return noticeOutcome(sent, { recipients: recipients.ids.length });
}

async function recipientsOf(
  deps: WorkerDeps,
  { body }: NoticeRun['command'],
  signal: AbortSignal,
): Promise<{ ids: string[] } | Outcome<NoticeQueue>> {
  if (body.recipient === 'STUDENT') return { ids: [body.studentId] };
  return resolveParents(deps, body.studentId, body.organizationId, signal);
}

/** The reply, or the error where there was none: a failed delivery spends its attempt whatever the cause. */
async function send(
  deps: WorkerDeps,
  to: Neighbour,
  notice: GradeNotice,
  recipients: string[],
  signal: AbortSignal,
): Promise<ServiceReply | Error> {
  try {
    return await callService({
      method: 'POST',
      url: `${to.url}/v1/events/notification`,
      sender: ATTEMPT_SERVICE,
      token: to.token,
      body: intakeBody(notice, recipients),
      timeoutMs: deps.config.outboundTimeoutMs,
      signal,
    });
  } catch (error) {
    signal.throwIfAborted();
    return error instanceof Error ? error : new Error(String(error));
  }
}

/** The receiver will never take this row: trying again cannot help. */
const PERMANENT = new Set([400, 413, 422]);
/** Token, sender or address are set wrong: an operator's fault, which must not use up the row's attempts. */
const MISCONFIGURED = new Set([401, 403, 404, 405]);
const MISCONFIGURED_REST_MS = 60_000;
/** A service may ask for more patience than the schedule has, up to here. */
const MAX_WAIT_MS = 60 * 60_000;

/** What a delivery's answer means for its outbox row. An Error stands for no answer at all. */
export function noticeOutcome(reply: ServiceReply | Error, result: { recipients: number }): Outcome<NoticeQueue> {
  if (reply instanceof Error) return { kind: 'retry', error: noAnswerOf('notification', reply) };
  if (reply.status >= 200 && reply.status < 300) return { kind: 'done', as: 'DELIVERED', result };
  const error = new Error(`the notification service answered ${reply.status}`);
  if (PERMANENT.has(reply.status)) return { kind: 'dead', error };
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

/** More than any child has; a reply with more is not believed. */
const MAX_PARENTS = 100;

/**
 * The ids of a student's parents, from the profile service. None, or an unknown student, is an answer: nobody to tell.
 * Anything else that is not a list of ids is a failed delivery.
 */
export async function resolveParents(
  deps: WorkerDeps,
  studentId: string,
  organizationId: string | null,
  signal: AbortSignal,
): Promise<{ ids: string[] } | Outcome<NoticeQueue>> {
  // Of a URL's path these are steps, encoded or not, and would ask the profile service for something else.
  if (studentId === '.' || studentId === '..') return { ids: [] };
  const { profile } = deps.config.neighbours;
  if (profile === null) throw new Error('a parent notice was claimed without a profile service');
  const reply = await callService({
    method: 'GET',
    url: `${profile.url}/v1/students/${encodeURIComponent(studentId)}/parents`,
    sender: ATTEMPT_SERVICE,
    token: profile.token,
    headers: organizationId === null ? {} : { 'x-organization-id': encodeURIComponent(organizationId) },
    timeoutMs: deps.config.outboundTimeoutMs,
    signal,
  }).catch((error: unknown) => {
    signal.throwIfAborted();
    return error instanceof Error ? error : new Error(String(error));
  });
  if (reply instanceof Error) return { kind: 'retry', error: noAnswerOf('profile', reply) };
  if (reply.status === 404) return { ids: [] };
  if (reply.status < 200 || reply.status >= 300) {
    const error = new Error(`the profile service answered ${reply.status}`);
    const unauthorized = reply.status === 401 || reply.status === 403 || reply.status === 405;
    return unauthorized ? noticeOutcome(reply, { recipients: 0 }) : { kind: 'retry', error, ...restAskedFor(reply) };
  }
  const ids = parentIdsOf(reply.body);
  return ids === null
    ? { kind: 'retry', error: new Error('the profile service answered no list of parent ids') }
    : { ids };
}

function parentIdsOf(body: unknown): string[] | null {
  const data = isJsonObject(body) ? body.data : undefined;
  const ids = isJsonObject(data) ? data.parentIds : undefined;
  if (!Array.isArray(ids) || ids.length > MAX_PARENTS) return null;
  if (!ids.every((id): id is string => typeof id === 'string' && /^[A-Za-z0-9._:@-]{1,128}$/.test(id))) return null;
  return [...new Set(ids)];
}
