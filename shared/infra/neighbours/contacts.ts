import { LRUCache } from 'lru-cache';
import type { Neighbour } from '#infra/config/settings.ts';
import { membersOf } from '#shared/kernel/json.ts';
import { MINUTE, type Now } from '#shared/kernel/time.ts';
import { type Contact, contactOf } from '#shared/notification/email.ts';
import { NOTIFICATION_SERVICE } from '#shared/notification/event.ts';
import { type CallLimits, callService, endOfCall, type Unserved } from './call.ts';

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
