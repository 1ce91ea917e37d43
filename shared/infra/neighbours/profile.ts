import type { Neighbour } from '#infra/config/settings.ts';
import { ATTEMPT_SERVICE } from '#shared/attempt/notices.ts';
import { type CallLimits, callService, dataField, endOfCall, type Unserved } from './call.ts';

/** `parents`: the list is empty for an unknown student too. `unreadable`: a success without a list of parent ids. */
type ResolvedParents = { kind: 'parents'; ids: string[] } | { kind: 'unreadable' } | Unserved;

/**
 * Reads the ids of a student's parents from the profile service.
 *
 * @throws the signal's reason, if the signal was aborted
 */
export async function resolveParents(
  service: Neighbour,
  { studentId, organizationId }: { studentId: string; organizationId: string | null },
  limits: CallLimits,
): Promise<ResolvedParents> {
  // `.` and `..` are path segments even when percent-encoded and would change the requested URL.
  if (studentId === '.' || studentId === '..') return { kind: 'parents', ids: [] };
  const call = callService({
    method: 'GET',
    url: `${service.url}/v1/students/${encodeURIComponent(studentId)}/parents`,
    sender: ATTEMPT_SERVICE,
    token: service.token,
    called: service.called,
    headers: organizationId === null ? {} : { 'x-organization-id': encodeURIComponent(organizationId) },
    ...limits,
  });
  const end = await endOfCall(call, limits.signal);
  if (end.kind === 'refused' && end.reply.status === 404) return { kind: 'parents', ids: [] };
  if (end.kind !== 'served') return end;
  const ids = parentIdsOf(end.reply.body);
  return ids === null ? { kind: 'unreadable' } : { kind: 'parents', ids };
}

/** Maximum number of parents. A longer list is treated as unreadable. */
const MAX_PARENTS = 100;

function parentIdsOf(body: unknown): string[] | null {
  const ids = dataField(body, 'parentIds');
  if (!Array.isArray(ids) || ids.length > MAX_PARENTS) return null;
  if (!ids.every((id): id is string => typeof id === 'string' && /^[A-Za-z0-9._:@-]{1,128}$/.test(id))) return null;
  return [...new Set(ids)];
}
