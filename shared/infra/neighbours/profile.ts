import { LRUCache } from 'lru-cache';
import type { Neighbour } from '#infra/config/settings.ts';
import { ATTEMPT_SERVICE } from '#shared/attempt/notices.ts';
import { isPersonId } from '#shared/kernel/ids.ts';
import { membersOf } from '#shared/kernel/json.ts';
import { MINUTE, type Now } from '#shared/kernel/time.ts';
import { type Contact, contactOf } from '#shared/notification/email.ts';
import { NOTIFICATION_SERVICE } from '#shared/notification/event.ts';
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

/** `contact` is null if the profile service knows no usable address of the person, or does not know the person. */
type FoundContact = { kind: 'found'; contact: Contact | null } | Unserved;

/** Reads how a person is reached, and never logs it. @throws the signal's reason, if the signal was aborted */
export type ReadContact = (userId: string, limits: CallLimits) => Promise<FoundContact>;

/** Time for which a read address is used again. A person who changes it gets the next minute's e-mails at the old one. */
const FRESH_MS = MINUTE;
/** Addresses that a process remembers at most. */
const MAX_REMEMBERED = 1_000;
/** A contact is a few hundred bytes. */
const MAX_REPLY_BYTES = 64 * 1024;

/**
 * Opens the contacts of the profile service. Each is remembered for a minute, so that a person with several notifications costs one call.
 * Failed calls and missing addresses are not remembered.
 */
export function openContacts(service: Neighbour, now: Now): ReadContact {
  const remembered = new LRUCache<string, Contact>({
    max: MAX_REMEMBERED,
    ttl: FRESH_MS,
    ttlResolution: 0,
    perf: { now },
  });

  return async (userId, limits) => {
    const known = remembered.get(userId);
    if (known !== undefined) return { kind: 'found', contact: known };
    const read = await readContact(service, userId, limits);
    if (read.kind === 'found' && read.contact !== null) remembered.set(userId, read.contact);
    return read;
  };
}

/** @throws the signal's reason, if the signal was aborted */
async function readContact(service: Neighbour, userId: string, limits: CallLimits): Promise<FoundContact> {
  // `.` and `..` are path segments even when percent-encoded and would change the requested URL.
  if (userId === '.' || userId === '..') return { kind: 'found', contact: null };
  const call = callService({
    method: 'GET',
    url: `${service.url}/v1/users/${encodeURIComponent(userId)}/contacts`,
    sender: NOTIFICATION_SERVICE,
    token: service.token,
    called: service.called,
    maxReplyBytes: MAX_REPLY_BYTES,
    ...limits,
  });
  const end = await endOfCall(call, limits.signal);
  if (end.kind === 'refused' && end.reply.status === 404) return { kind: 'found', contact: null };
  if (end.kind !== 'served') return end;
  const data = membersOf(end.reply.body).data;
  // A page of a proxy or of another service: to suppress the e-mail for it would lose it.
  if (typeof data !== 'object' || data === null)
    return { kind: 'unanswered', error: new Error('the reply has no contact') };
  return { kind: 'found', contact: contactOf(membersOf(data)) };
}
