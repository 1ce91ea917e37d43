import type { WorkerAccess } from '#api/ring-and-wait.ts';
import type { Call, Identity, Reply, TextReply } from '#api/route.ts';
import type { AttemptSettings } from '#infra/config/settings.ts';
import { fillTexts, findAttempt } from '#infra/mongo/attempt/attempts.ts';
import type { AttemptRef } from '#infra/mongo/attempt/refs.ts';
import type { Wanted } from '#infra/mongo/operations/subscriptions.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { type AttemptDetail, redactAttempt } from '#shared/attempt/redact.ts';
import { isExaminer, isOwner, type Role, type Viewer } from '#shared/attempt/visibility.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import type { Now } from '#shared/kernel/time.ts';
import type { AttemptStores } from './stores.ts';

/** Dependencies of the attempt service's front door. */
export interface AttemptDeps extends WorkerAccess, AttemptStores {
  /** Returns MongoDB's time (ms since the epoch). */
  now: Now;
  settings: AttemptSettings;
  commandAttempts: number;
  /** The types of events that a subscription wants. */
  wanted: Wanted;
}

/** Returns the ref of the caller's own attempt, or the rejection. A ref that this process has cached needs no read. */
export async function ownAttemptRef(
  deps: AttemptDeps,
  call: Pick<Call, 'params' | 'identity'>,
): Promise<AttemptRef | Rejection> {
  const viewer = viewerOf(call.identity);
  const _id = call.params.attemptId ?? '';
  // The second read may find an attempt of the caller that a start has stored since the first one.
  const ref = (await deps.attemptRefs.find({ _id, studentId: viewer.id })) ?? (await deps.attemptRefs.readById(_id));
  if (ref === null) return { rejected: 'ATTEMPT_NOT_FOUND' };
  return isOwner(ref, viewer) ? ref : { rejected: 'FORBIDDEN' };
}

/**
 * Returns the refusal of a student whose own attempts did not include this one: it belongs to another student, or does not exist. An
 * attempt whose student was erased after its ref was cached belongs to another one as well. If the student has it by now, because a start
 * has stored it since, the caller must send the request again.
 */
export async function refusalOf({ attemptRefs }: AttemptDeps, attemptId: string, viewer: Viewer): Promise<Rejection> {
  const ref = await attemptRefs.readById(attemptId);
  if (ref === null) return { rejected: 'ATTEMPT_NOT_FOUND' };
  return isOwner(ref, viewer) ? { rejected: 'UNAVAILABLE', retryAfter: 1 } : { rejected: 'FORBIDDEN' };
}

/** Returns the attempt with its long texts filled in. If a text is missing, the attempt has changed and is read again. */
export async function withTexts({ mongo }: AttemptDeps, attempt: Attempt): Promise<Attempt> {
  if (await fillTexts(mongo, attempt)) return attempt;
  return (await findAttempt(mongo, attempt)) ?? attempt;
}

/** Returns the attempt as this viewer may see it, with its newest `eventLimit` events. An examiner sees the corrected keys. */
export async function detailOf(
  deps: AttemptDeps,
  attempt: Attempt,
  viewer: Viewer,
  eventLimit: number,
): Promise<AttemptDetail> {
  const whole = await withTexts(deps, attempt);
  const paperOf = isExaminer(whole, viewer) ? deps.gradingPaper(whole) : deps.papers.find(whole.paperId);
  const [paper, events] = await Promise.all([paperOf, deps.newestEvents(whole, eventLimit)]);
  return redactAttempt({ attempt: whole, paper, events }, viewer, new Date(deps.now()));
}

/**
 * Returns a reply with the detail, like `detailOf`. If this process still has the questions as text, from the attempt's start or saves, the
 * reply contains that text. Examiners see other questions; all other viewers see the same ones in every status.
 */
export async function detailReply(
  deps: AttemptDeps,
  attempt: Attempt,
  viewer: Viewer,
  { status, eventLimit }: { status: number; eventLimit: number },
): Promise<Reply | TextReply> {
  if (isExaminer(attempt, viewer) || deps.replyTexts.find(attempt._id) === undefined) {
    return { status, data: await detailOf(deps, attempt, viewer, eventLimit) };
  }
  return { kind: 'text', status, data: await detailText(deps, attempt, viewer, eventLimit) };
}

/**
 * Returns the detail as JSON, and keeps its questions as text. The viewer must be no examiner of the attempt. With `texts`, the attempt may
 * lack the fields from which its questions follow.
 */
export async function detailText(
  deps: AttemptDeps,
  attempt: Attempt,
  viewer: Viewer,
  eventLimit: number,
  texts = deps.replyTexts.find(attempt._id),
): Promise<TextReply['data']> {
  const whole = await withTexts(deps, attempt);
  const events = await deps.newestEvents(whole, eventLimit);
  const known = texts ?? (await deps.replyTexts.add(whole, await deps.papers.find(whole.paperId)));
  return known.ofWhole(whole, events, viewer, new Date(deps.now()));
}

/** Viewer of other services on internal routes: such a service sees what the student sees. */
export const SERVICE_VIEWER: Viewer = { role: 'SERVICE', id: '' };

/** Returns the caller as a viewer. Throws on a route whose guards do not require an identity. */
export function viewerOf(identity: Identity): Viewer {
  if (identity.actor === undefined) throw new Error('route without the identity guard read its viewer');
  return { role: identity.actor.role as Role, id: identity.actor.id };
}
