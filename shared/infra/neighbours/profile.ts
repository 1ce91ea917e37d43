import type { Neighbour } from '#infra/config/settings.ts';
import { ATTEMPT_SERVICE } from '#shared/attempt/notices.ts';
import { isPersonId } from '#shared/kernel/ids.ts';
import { type CallLimits, callService, dataField, endOfCall, type Unserved } from './call.ts';

/**
 * `parents`: the list is empty for an unknown student too. `leftOut` counts entries that are no person id, or beyond the hundredth.
 * `unreadable`: a success without a list, or with a list that has no id of a person although it is not empty.
 */
type ResolvedParents = { kind: 'parents'; ids: string[]; leftOut: number } | { kind: 'unreadable' } | Unserved;

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
  if (studentId === '.' || studentId === '..') return NO_PARENTS;
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
  if (end.kind === 'refused' && end.reply.status === 404) return NO_PARENTS;
  if (end.kind !== 'served') return end;
  return parentsIn(end.reply.body);
}

const NO_PARENTS = { kind: 'parents', ids: [], leftOut: 0 } satisfies ResolvedParents;

/** Maximum number of parents of a student who are notified. */
const MAX_PARENTS = 100;

/** Reads the parents in a reply. One odd entry must not silence the others. */
function parentsIn(body: unknown): ResolvedParents {
  const listed = dataField(body, 'parentIds');
  if (!Array.isArray(listed)) return { kind: 'unreadable' };
  const distinct = [...new Set<unknown>(listed)];
  const ids = distinct.filter(isPersonId).slice(0, MAX_PARENTS);
  if (ids.length === 0 && distinct.length > 0) return { kind: 'unreadable' };
  return { kind: 'parents', ids, leftOut: distinct.length - ids.length };
}
