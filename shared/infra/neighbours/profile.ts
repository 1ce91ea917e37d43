import type { Neighbour } from '#infra/config/settings.ts';
import { ATTEMPT_SERVICE } from '#shared/attempt/notices.ts';
import { callService, dataField, endOfCall, type Patience, type Unserved } from './call.ts';

/** `parents`: none, or an unknown student, is an answer too. `unreadable`: a success without a list of parent ids. */
type ResolvedParents = { kind: 'parents'; ids: string[] } | { kind: 'unreadable' } | Unserved;

/**
 * Asks the profile service for the ids of a student's parents.
 * @throws the signal's reason, if that was aborted
 */
export async function resolveParents(
  service: Neighbour,
  { studentId, organizationId }: { studentId: string; organizationId: string | null },
  patience: Patience,
): Promise<ResolvedParents> {
  // Of a URL's path these are steps, encoded or not, and would ask the profile service for something else.
  if (studentId === '.' || studentId === '..') return { kind: 'parents', ids: [] };
  const call = callService({
    method: 'GET',
    url: `${service.url}/v1/students/${encodeURIComponent(studentId)}/parents`,
    sender: ATTEMPT_SERVICE,
    token: service.token,
    headers: organizationId === null ? {} : { 'x-organization-id': encodeURIComponent(organizationId) },
    ...patience,
  });
  const end = await endOfCall(call, patience.signal);
  if (end.kind === 'refused' && end.reply.status === 404) return { kind: 'parents', ids: [] };
  if (end.kind !== 'served') return end;
  const ids = parentIdsOf(end.reply.body);
  return ids === null ? { kind: 'unreadable' } : { kind: 'parents', ids };
}

/** More than any child has; a reply with more is not believed. */
const MAX_PARENTS = 100;

function parentIdsOf(body: unknown): string[] | null {
  const ids = dataField(body, 'parentIds');
  if (!Array.isArray(ids) || ids.length > MAX_PARENTS) return null;
  if (!ids.every((id): id is string => typeof id === 'string' && /^[A-Za-z0-9._:@-]{1,128}$/.test(id))) return null;
  return [...new Set(ids)];
}
