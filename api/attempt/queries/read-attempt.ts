import type { AttemptDeps } from '#api/attempt/deps.ts';
import { detailOf } from '#api/attempt/detail.ts';
import { viewerOf } from '#api/attempt/viewer.ts';
import type { Call, Reply } from '#api/route.ts';
import { findAttempt } from '#infra/mongo/attempt/attempts.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { DETAIL_EVENTS } from '#shared/attempt/limits.ts';
import { resultOf } from '#shared/attempt/redact.ts';
import { mayRead } from '#shared/attempt/visibility.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';

/** The attempt, if it exists and this caller may read it. */
export async function readable(deps: AttemptDeps, call: Call): Promise<Attempt | Rejection> {
  const attempt = await findAttempt(deps.mongo, call.params.attemptId ?? '');
  if (attempt === null) return { rejected: 'ATTEMPT_NOT_FOUND' };
  return mayRead(attempt, viewerOf(call.identity)) ? attempt : { rejected: 'FORBIDDEN' };
}

export async function readAttempt(deps: AttemptDeps, call: Call): Promise<Reply | Rejection> {
  const attempt = await readable(deps, call);
  if (isRejection(attempt)) return attempt;
  return { status: 200, data: await detailOf(deps, attempt, viewerOf(call.identity), DETAIL_EVENTS) };
}

export async function readResult(deps: AttemptDeps, call: Call): Promise<Reply | Rejection> {
  const attempt = await readable(deps, call);
  if (isRejection(attempt)) return attempt;
  const detail = await detailOf(deps, attempt, viewerOf(call.identity), DETAIL_EVENTS);
  return { status: 200, data: resultOf(detail) };
}
