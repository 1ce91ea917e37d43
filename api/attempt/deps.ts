import type { WorkerAccess } from '#api/ask-worker.ts';
import type { Call, Identity } from '#api/route.ts';
import type { AttemptSettings } from '#infra/config/settings.ts';
import { type AttemptHead, fillTexts, findAttempt, type Heads } from '#infra/mongo/attempt/attempts.ts';
import { newestEvents } from '#infra/mongo/attempt/events.ts';
import type { Papers } from '#infra/mongo/attempt/papers.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { type AttemptDetail, redactAttempt } from '#shared/attempt/redact.ts';
import { isOwner, type Role, type Viewer } from '#shared/attempt/visibility.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import type { Now } from '#shared/kernel/time.ts';

/** What the attempt service's front door works with. */
export interface AttemptDeps extends WorkerAccess {
  papers: Papers;
  heads: Heads;
  /** MongoDB's time. */
  now: Now;
  settings: AttemptSettings;
  commandAttempts: number;
}

/** Returns the head of the caller's own attempt. A head that this process remembers costs no read. */
export async function ownHead(
  deps: AttemptDeps,
  call: Pick<Call, 'params' | 'identity'>,
): Promise<AttemptHead | Rejection> {
  const viewer = viewerOf(call.identity);
  const head = await deps.heads.find(call.params.attemptId ?? '');
  if (head === null) return { rejected: 'ATTEMPT_NOT_FOUND' };
  return isOwner(head, viewer) ? head : { rejected: 'FORBIDDEN' };
}

/** Returns an attempt whose existence the call has established. */
export async function knownAttempt({ mongo }: AttemptDeps, attemptId: string): Promise<Attempt> {
  const attempt = await findAttempt(mongo, attemptId);
  if (attempt === null) throw new Error(`attempt ${attemptId} vanished`);
  return attempt;
}

/** Fills in the attempt's long texts. If one is gone, the attempt has changed since and is read again. */
export async function withTexts({ mongo }: AttemptDeps, attempt: Attempt): Promise<Attempt> {
  if (await fillTexts(mongo, attempt)) return attempt;
  return (await findAttempt(mongo, attempt._id)) ?? attempt;
}

/** The attempt as this viewer may see it, with its newest `eventLimit` events. */
export async function detailOf(
  deps: AttemptDeps,
  attempt: Attempt,
  viewer: Viewer,
  eventLimit: number,
): Promise<AttemptDetail> {
  const whole = await withTexts(deps, attempt);
  const [paper, events] = await Promise.all([
    deps.papers.find(whole.paperId),
    newestEvents(deps.mongo, whole, eventLimit),
  ]);
  return redactAttempt({ attempt: whole, paper, events }, viewer, new Date(deps.now()));
}

/** Sister services on internal routes see what the student sees. */
export const SERVICE_VIEWER: Viewer = { role: 'SERVICE', id: '' };

/** Who asks; only on routes whose guards demand an identity. */
export function viewerOf(identity: Identity): Viewer {
  if (identity.actor === undefined) throw new Error('a route without identity guard asked for its viewer');
  return { role: identity.actor.role as Role, id: identity.actor.id };
}
