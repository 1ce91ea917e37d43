import type { AttemptDeps } from '#api/attempt/deps.ts';
import { detailOf } from '#api/attempt/detail.ts';
import { viewerOf } from '#api/attempt/viewer.ts';
import type { Call, Reply } from '#api/route.ts';
import { appendClientEvent } from '#infra/mongo/attempt/events.ts';
import { handIn } from '#infra/mongo/attempt/hand-in.ts';
import { FRONT_DOOR_BUDGET_MS } from '#infra/mongo/transaction.ts';
import { admitClientEvent } from '#shared/attempt/events.ts';
import { DETAIL_EVENTS } from '#shared/attempt/limits.ts';
import { eventForReply } from '#shared/attempt/redact.ts';
import { isOwner } from '#shared/attempt/visibility.ts';
import type { PostEventRequest } from '#shared/generated/attempt.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { gradedAttempt } from './hand-in-once.ts';

/** Logs what the student's client saw. A TIMEOUT hands in an attempt that is still open, limit or not. */
export async function postEvent(deps: AttemptDeps, call: Call<PostEventRequest>): Promise<Reply | Rejection> {
  const attemptId = call.params.attemptId ?? '';
  const viewer = viewerOf(call.identity);
  const head = await deps.heads.find(attemptId);
  if (head === null) return { rejected: 'ATTEMPT_NOT_FOUND' };
  if (!isOwner(head, viewer)) return { rejected: 'FORBIDDEN' };
  const { type } = call.body;
  const metadata = call.body.metadata ?? {};
  const tooLarge = admitClientEvent({ clientEvents: 0 }, metadata);
  if (tooLarge !== null) return tooLarge;

  if (type === 'TIMEOUT') {
    const submitted = await submitByTimeout(deps, call, attemptId);
    if (submitted !== null) return submitted;
  }
  const write = { attemptId, type, metadata: JSON.stringify(metadata) };
  const event = await appendClientEvent(deps.mongo, write, FRONT_DOOR_BUDGET_MS, deps.now);
  if (event === null) return { rejected: 'EVENT_LIMIT_REACHED' };
  return { status: 201, data: eventForReply(attemptId, event, true) };
}

/** Null: the attempt was not in progress, so the event is just an event. */
async function submitByTimeout(
  deps: AttemptDeps,
  call: Call<PostEventRequest>,
  attemptId: string,
): Promise<Reply | null> {
  const command = await handIn(deps.mongo, {
    attemptId,
    source: 'TIMEOUT',
    overdueByMs: null,
    maxAttempts: deps.commandAttempts,
    now: deps.now(),
    budgetMs: FRONT_DOOR_BUDGET_MS,
  });
  if (command === null) return null;
  const attempt = await gradedAttempt(deps, attemptId, command, call.signal);
  return {
    status: attempt.status === 'GRADED' ? 200 : 202,
    data: await detailOf(deps, attempt, viewerOf(call.identity), DETAIL_EVENTS),
  };
}
