import type { WorkerAccess } from '#api/ask-worker.ts';
import type { Identity } from '#api/route.ts';
import type { AttemptSettings } from '#infra/config/settings.ts';
import { fillTexts, findAttempt, type Heads } from '#infra/mongo/attempt/attempts.ts';
import { newestEvents } from '#infra/mongo/attempt/events.ts';
import type { Papers } from '#infra/mongo/attempt/papers.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { type AttemptDetail, redactAttempt } from '#shared/attempt/redact.ts';
import type { Role, Viewer } from '#shared/attempt/visibility.ts';
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

/** The attempt as this viewer may see it, with its newest `eventLimit` events. */
export async function detailOf(
  deps: AttemptDeps,
  attempt: Attempt,
  viewer: Viewer,
  eventLimit: number,
): Promise<AttemptDetail> {
  const whole = (await fillTexts(deps.mongo, attempt))
    ? attempt
    : ((await findAttempt(deps.mongo, attempt._id)) ?? attempt);
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
