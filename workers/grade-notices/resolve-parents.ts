import { callService } from '#infra/neighbours/call.ts';
import { ATTEMPT_SERVICE } from '#shared/attempt/notices.ts';
import { isJsonObject } from '#shared/kernel/json-object.ts';
import type { WorkerDeps } from '#workers/deps.ts';
import type { Outcome } from '#workers/outcome.ts';
import { noAnswerOf, noticeOutcome, restAskedFor } from './notice-outcome.ts';

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
): Promise<{ ids: string[] } | Outcome> {
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
    return unauthorized ? noticeOutcome(reply, {}) : { kind: 'retry', error, ...restAskedFor(reply) };
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
