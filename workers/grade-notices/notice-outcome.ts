import type { ServiceReply } from '#infra/neighbours/call.ts';
import type { Outcome } from '#workers/outcome.ts';

/** The receiver will never take this row: trying again cannot help. */
const PERMANENT = new Set([400, 413, 422]);
/** Token, sender or address are set wrong: an operator's fault, which must not use up the row's attempts. */
const MISCONFIGURED = new Set([401, 403, 404, 405]);
const MISCONFIGURED_REST_MS = 60_000;
/** A service may ask for more patience than the schedule has, up to here. */
const MAX_WAIT_MS = 60 * 60_000;

/** What a delivery's answer means for its outbox row. An Error stands for no answer at all. */
export function noticeOutcome(reply: ServiceReply | Error, result: object): Outcome {
  if (reply instanceof Error) return { kind: 'retry', error: noAnswerOf('notification', reply) };
  if (reply.status >= 200 && reply.status < 300) return { kind: 'done', as: 'DELIVERED', result };
  const error = new Error(`the notification service answered ${reply.status}`);
  if (PERMANENT.has(reply.status)) return { kind: 'dead', error };
  if (MISCONFIGURED.has(reply.status)) return { kind: 'snooze', afterMs: MISCONFIGURED_REST_MS, error };
  return { kind: 'retry', error, ...restAskedFor(reply) };
}

/** `fetch failed` names neither whom nor why: the words are for the operator's list, the reason stays below them. */
export function noAnswerOf(service: string, reason: Error): Error {
  return new Error(`the ${service} service gave no whole answer`, { cause: reason });
}

/** The least rest that the answer asks for, as part of a retry. */
export function restAskedFor({ retryAfterMs }: ServiceReply): { afterMs?: number } {
  return retryAfterMs === null ? {} : { afterMs: Math.min(retryAfterMs, MAX_WAIT_MS) };
}
