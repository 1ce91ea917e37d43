import { fillTexts, findAttempt } from '#infra/mongo/attempt/attempts.ts';
import { newestEvents } from '#infra/mongo/attempt/events.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { type AttemptDetail, redactAttempt } from '#shared/attempt/redact.ts';
import type { Viewer } from '#shared/attempt/visibility.ts';
import type { AttemptDeps } from './deps.ts';

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
