import { setTimeout as delay } from 'node:timers/promises';
import type { Call, Reply } from '#api/route.ts';
import { type AttemptHead, fillTexts, findAttempt } from '#infra/mongo/attempt/attempts.ts';
import {
  type AnswerWrite,
  isLongAnswer,
  type SaveResult,
  saveAnswer,
  saveAnswerWithRows,
} from '#infra/mongo/attempt/save-answer.ts';
import { isWriteConflict } from '#infra/mongo/faults.ts';
import { FRONT_DOOR_BUDGET_MS } from '#infra/mongo/transaction.ts';
import { pickAnswer } from '#shared/attempt/answer.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { saveAnswerMetadata } from '#shared/attempt/events.ts';
import { SAVE_REPLY_EVENTS } from '#shared/attempt/limits.ts';
import { type PlacedSave, placeSave, whySaveRefused } from '#shared/attempt/save-rules.ts';
import { isOwner, type Viewer } from '#shared/attempt/visibility.ts';
import type { SaveAnswerRequest } from '#shared/generated/attempt.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { type AttemptDeps, detailOf, viewerOf } from './deps.ts';
import { handInOnce } from './submit.ts';

/** Between two tries of saves that meet on one attempt (ms); random below it, so that they part. */
const MEETING_REST_MS = 20;

/**
 * Saves one answer: one MongoDB command when all is well and the attempt is known here. A write that was refused comes
 * back with the attempt that refused it, and the pure rules say why, in the order of the contract.
 */
export async function saveOneAnswer(deps: AttemptDeps, call: Call<SaveAnswerRequest>): Promise<Reply | Rejection> {
  const answer = pickAnswer(call.body);
  if (isRejection(answer)) return answer;
  const attemptId = call.params.attemptId ?? '';
  const viewer = viewerOf(call.identity);
  const head = await deps.heads.find(attemptId);
  if (head === null) return { rejected: 'ATTEMPT_NOT_FOUND' };
  if (!isOwner(head, viewer)) return { rejected: 'FORBIDDEN' };
  const { questionId, clientVersion, sourceTabId } = call.body;
  const save = { questionId, answer, clientVersion: clientVersion ?? 0 };
  const placed = placeSave(attemptId, await deps.papers.find(head.paperId), save);
  // Without a place only the stored attempt can say which rule comes first.
  const write = isRejection(placed) ? null : writeOf(head, placed, sourceTabId ?? null);

  const isLong = write !== null && isLongAnswer(write.content);
  const giveUpAt = performance.now() + FRONT_DOOR_BUDGET_MS;
  for (let rows = isLong; performance.now() < giveUpAt; ) {
    const result =
      write === null
        ? await readRefusing(deps, attemptId)
        : rows
          ? await saveWithRows(deps, write, isLong)
          : await saveAnswer(deps.mongo, write);
    switch (result.kind) {
      case 'saved':
        return { status: 200, data: await detailOf(deps, result.attempt, viewer, SAVE_REPLY_EVENTS) };
      case 'missing':
        return { rejected: 'ATTEMPT_NOT_FOUND' };
      case 'refused': {
        const reason = await reasonOf(deps, result.attempt, placed, viewer);
        if (reason !== null) return reason;
        // Nothing forbids it: the tail is full, or a long text must make way. Both take rows of their own.
        rows = true;
        break;
      }
      case 'raced':
        // Who came first has rolled the tail, and the rest need no transaction any more: fifty that insisted on one
        // would conflict with each other for seconds.
        rows = isLong;
        await delay(Math.random() * MEETING_REST_MS);
        break;
      default:
        return result satisfies never;
    }
  }
  return { rejected: 'UNAVAILABLE', retryAfter: 1 };
}

/** The attempt that refuses a save without a place. */
async function readRefusing(deps: AttemptDeps, attemptId: string): Promise<SaveResult> {
  const attempt = await findAttempt(deps.mongo, attemptId);
  return attempt === null ? { kind: 'missing' } : { kind: 'refused', attempt };
}

/** A long text waits for its turn; a save that is only the one to roll the tail tries once, and may have `raced` another. */
async function saveWithRows(
  deps: AttemptDeps,
  write: AnswerWrite,
  isLong: boolean,
): Promise<SaveResult | { kind: 'raced' }> {
  try {
    return await saveAnswerWithRows(deps.mongo, write, isLong ? FRONT_DOOR_BUDGET_MS : 0, deps.now);
  } catch (error) {
    if (!isLong && isWriteConflict(error)) return { kind: 'raced' };
    throw error;
  }
}

function writeOf(head: AttemptHead, placed: PlacedSave, sourceTabId: string | null): AnswerWrite {
  const { paperIndex, question, content, bytes, clientVersion } = placed;
  return {
    attemptId: head._id,
    paperIndex,
    content,
    bytes,
    clientVersion,
    metadata: (serverVersion) =>
      saveAnswerMetadata({ questionId: question.questionId, serverVersion, clientVersion, sourceTabId }),
  };
}

/** Why the attempt refused the save; null when by what it now is it would not. */
async function reasonOf(
  deps: AttemptDeps,
  attempt: Attempt,
  placed: PlacedSave | Rejection,
  viewer: Viewer,
): Promise<Rejection | null> {
  const whole = (await fillTexts(deps.mongo, attempt))
    ? attempt
    : ((await findAttempt(deps.mongo, attempt._id)) ?? attempt);
  const reason = whySaveRefused(whole, placed, viewer, new Date(deps.now()));
  if (reason?.rejected !== 'ATTEMPT_DEADLINE_EXPIRED') return reason;
  // Committed before it is told, and by MongoDB's clock; the grade is the worker's, and nobody waits for it here.
  const command = await handInOnce(deps, attempt._id, 'TIMEOUT', 0);
  if (command === null) return null;
  void deps.doorbells.ring(command.queue, command._id, command.attempts);
  return reason;
}
