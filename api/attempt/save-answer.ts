import { setTimeout as delay } from 'node:timers/promises';
import type { Call, Reply } from '#api/route.ts';
import { type AttemptHead, findAttempt } from '#infra/mongo/attempt/attempts.ts';
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
import type { Viewer } from '#shared/attempt/visibility.ts';
import type { SaveAnswerRequest } from '#shared/generated/attempt.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { type AttemptDeps, detailOf, ownHead, viewerOf, withTexts } from './deps.ts';
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
  const head = await ownHead(deps, call);
  if (isRejection(head)) return head;
  const { questionId, clientVersion, sourceTabId } = call.body;
  const save = { questionId, answer, clientVersion: clientVersion ?? 0 };
  const placed = placeSave(head._id, await deps.papers.find(head.paperId), save);
  const ways = isRejection(placed)
    ? unplacedWays(deps, head._id)
    : placedWays(deps, writeOf(head, placed, sourceTabId ?? null));
  const viewer = viewerOf(call.identity);
  const giveUpAt = performance.now() + FRONT_DOOR_BUDGET_MS;
  let tryToSave = ways.first;
  while (performance.now() < giveUpAt) {
    const result = await tryToSave();
    switch (result.kind) {
      case 'saved':
        return { status: 200, data: await detailOf(deps, result.attempt, viewer, SAVE_REPLY_EVENTS) };
      case 'missing':
        return { rejected: 'ATTEMPT_NOT_FOUND' };
      case 'refused': {
        const reason = await reasonOf(deps, result.attempt, placed, viewer);
        if (reason !== null) return reason;
        // Nothing forbids it: the tail is full, or a long text must make way. Both take rows of their own.
        tryToSave = ways.withRows;
        break;
      }
      case 'raced':
        // Who came first has rolled the tail, and the rest need no transaction any more: fifty that insisted on one
        // would conflict with each other for seconds.
        tryToSave = ways.first;
        await delay(Math.random() * MEETING_REST_MS);
        break;
      default:
        return result satisfies never;
    }
  }
  return { rejected: 'UNAVAILABLE', retryAfter: 1 };
}

type TryToSave = () => Promise<SaveResult | { kind: 'raced' }>;

/** How a save is tried first, and how once the attempt has no room for one command. */
interface SaveWays {
  first: TryToSave;
  withRows: TryToSave;
}

/** A short answer is tried with one command first; a long text needs a row of its own from the beginning. */
function placedWays(deps: AttemptDeps, write: AnswerWrite): SaveWays {
  const isLong = isLongAnswer(write.content);
  const withRows = () => saveWithRows(deps, write, isLong);
  return { first: isLong ? withRows : () => saveAnswer(deps.mongo, write), withRows };
}

/** A save without a place writes nothing: only the stored attempt can say which rule comes first. */
function unplacedWays(deps: AttemptDeps, attemptId: string): SaveWays {
  const readRefusing: TryToSave = async () => {
    const attempt = await findAttempt(deps.mongo, attemptId);
    return attempt === null ? { kind: 'missing' } : { kind: 'refused', attempt };
  };
  return { first: readRefusing, withRows: readRefusing };
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
  const whole = await withTexts(deps, attempt);
  const reason = whySaveRefused(whole, placed, viewer, new Date(deps.now()));
  if (reason?.rejected !== 'ATTEMPT_DEADLINE_EXPIRED') return reason;
  // Committed before it is told, and by MongoDB's clock; the grade is the worker's, and nobody waits for it here.
  const command = await handInOnce(deps, attempt._id, 'TIMEOUT', 0);
  if (command === null) return null;
  void deps.doorbells.ring(command.queue, command._id, command.attempts);
  return reason;
}
