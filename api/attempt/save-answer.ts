import { setTimeout as delay } from 'node:timers/promises';
import type { Document } from 'mongodb';
import { isMinimalPreferred, MINIMAL_APPLIED } from '#api/http/headers.ts';
import type { Call, Reply, TextReply } from '#api/route.ts';
import { findAttempt } from '#infra/mongo/attempt/attempts.ts';
import type { AttemptRef } from '#infra/mongo/attempt/refs.ts';
import { type ReplyText, WITHOUT_FIXED } from '#infra/mongo/attempt/reply-texts.ts';
import {
  type AnswerWrite,
  isLongAnswer,
  replacesLongText,
  type SaveResult,
  saveAnswer,
  saveAnswerWithRows,
} from '#infra/mongo/attempt/save-answer.ts';
import type { StoredAttempt } from '#infra/mongo/attempt/stored-attempt.ts';
import { isWriteConflict } from '#infra/mongo/faults.ts';
import { FRONT_DOOR_BUDGET_MS } from '#infra/mongo/transaction.ts';
import { pickAnswer } from '#shared/attempt/answer.ts';
import { type Attempt, type AttemptKey, answerKeyOf } from '#shared/attempt/attempt.ts';
import { saveAnswerMetadata } from '#shared/attempt/events.ts';
import { EVENT_TAIL_CAP, SAVE_REPLY_EVENTS } from '#shared/attempt/limits.ts';
import { savedAnswer } from '#shared/attempt/redact.ts';
import { type FittedSave, fitSave, whySaveRefused } from '#shared/attempt/save-rules.ts';
import type { Viewer } from '#shared/attempt/visibility.ts';
import type { SaveAnswerRequest } from '#shared/generated/attempt.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { type AttemptDeps, detailText, ownAttemptRef, refusalOf, viewerOf, withTexts } from './deps.ts';
import { submitOverdue } from './submit.ts';

/** Upper bound of the random wait (ms) before a save repeats after a conflict, so that concurrent saves spread out. */
const CONFLICT_WAIT_MS = 20;

/**
 * Saves one answer. Costs one MongoDB command if the attempt is cached here and accepts the write, and one save in twenty a second
 * command, which copies events to rows. A refused write returns the stored attempt, and the pure rules then find the reason in the
 * order of the contract. A caller that prefers a minimal reply gets the answer alone: the whole paper of an exam with pictures would
 * be sent back at every save.
 */
export async function saveOneAnswer(
  deps: AttemptDeps,
  call: Call<SaveAnswerRequest>,
): Promise<Reply | TextReply | Rejection> {
  const answer = pickAnswer(call.body);
  if (isRejection(answer)) return answer;
  const ref = await ownAttemptRef(deps, call);
  if (isRejection(ref)) return ref;
  const { questionId, clientVersion, sourceTabId } = call.body;
  const save = { questionId, answer, clientVersion: clientVersion ?? 0 };
  const fitted = fitSave(ref, await deps.papers.find(ref.paperId), save);
  const isMinimal = isMinimalPreferred(call.headers.prefer);
  const ways = isRejection(fitted)
    ? waysToRefuse(deps, ref)
    : waysToSave(deps, writeOf(ref, fitted, sourceTabId ?? null), isMinimal);
  const viewer = viewerOf(call.identity);
  const giveUpAt = performance.now() + FRONT_DOOR_BUDGET_MS;
  let way = ways.first;
  while (performance.now() < giveUpAt) {
    const result = await way();
    switch (result.kind) {
      case 'saved':
        if (isMinimal && !isRejection(fitted)) return minimalReplyTo(deps, result, fitted);
        return { kind: 'text', status: 200, data: await replyTo(deps, result, viewer) };
      case 'missing':
        return refusalOf(deps, ref._id, viewer);
      case 'refused': {
        const reason = await reasonOf(deps, result.attempt, fitted, viewer);
        if (reason !== null) return reason;
        // No rule forbids the save: a stored text is long and must be deleted, or the event tail has no room left.
        way = ways.next(result.attempt);
        break;
      }
      case 'raced':
        // Another save may have replaced the long text, so that this one needs no transaction any more. If fifty saves insisted on
        // a transaction each, they would conflict with each other for seconds.
        way = ways.first;
        await delay(Math.random() * CONFLICT_WAIT_MS);
        break;
      default:
        return result satisfies never;
    }
  }
  return { rejected: 'UNAVAILABLE', retryAfter: 1 };
}

/** The attempt after a save: whole, or as stored without the fields that its reply does not need. */
type Saved =
  | { kind: 'saved'; attempt: Attempt }
  | { kind: 'saved'; stored: StoredAttempt; texts: ReplyText | undefined };

type SaveWay = () => Promise<Saved | Exclude<SaveResult, { kind: 'saved' }> | { kind: 'raced' }>;

/** The ways to save: the first one, and the one that follows if no rule explains the refusal of this attempt. */
interface SaveWays {
  first: SaveWay;
  next(refused: Attempt): SaveWay;
}

/** Returns the ways to save this write: a short answer begins with one command, a long text with a row of its own. */
function waysToSave(deps: AttemptDeps, write: AnswerWrite, isMinimal: boolean): SaveWays {
  const isLong = isLongAnswer(write.content);
  const withRows: SaveWay = () => saveWithRows(deps, write, isLong);
  const alone: SaveWay = async () => {
    const { _id } = write.attempt;
    const texts = isMinimal ? undefined : deps.replyTexts.find(_id);
    const isPartial = isMinimal || texts !== undefined;
    const movedTo = deps.eventTails.movedTo(_id);
    const projection = isMinimal ? minimalFields(write) : WITHOUT_FIXED;
    const result = await saveAnswer(deps.mongo, write, { movedTo, ...(isPartial ? { projection } : {}) });
    // The fields of a minimal reply do not show why the save is refused.
    if (result.kind === 'refused' && isMinimal) return readRefusing(deps, write.attempt);
    if (result.kind !== 'saved') return result;
    const { stored } = result;
    if (stored.tailLength >= EVENT_TAIL_CAP || movedTo > 0) deps.eventTails.seen(stored.tail());
    return isPartial ? { kind: 'saved', stored, texts } : { kind: 'saved', attempt: stored.whole() };
  };
  return {
    first: isLong ? withRows : alone,
    next(refused) {
      if (isLong || replacesLongText(refused, write)) return withRows;
      return () => deps.eventTails.makeRoom(refused).then(alone);
    },
  };
}

/** Returns the projection of an attempt for a minimal reply: it has the events because the tail may have to be moved to rows. */
function minimalFields({ paperIndex }: AnswerWrite): Document {
  return { stamp: 1, status: 1, deadlineAt: 1, events: 1, [`answers.${answerKeyOf(paperIndex)}`]: 1 };
}

/** Reads the attempt of a save that it refuses. */
async function readRefusing({ mongo }: AttemptDeps, ref: AttemptKey): Promise<Exclude<SaveResult, { kind: 'saved' }>> {
  const attempt = await findAttempt(mongo, ref);
  return attempt === null ? { kind: 'missing' } : { kind: 'refused', attempt };
}

/** Returns the ways for a save that does not fit its paper: both only read the attempt, to find the rule that refuses first. */
function waysToRefuse(deps: AttemptDeps, ref: AttemptRef): SaveWays {
  const read: SaveWay = () => readRefusing(deps, ref);
  return { first: read, next: () => read };
}

/** Saves in a transaction. A long text retries conflicts; a save that deletes such a text returns `raced` at the first one. */
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

/** Returns the saved answer with the state and the deadline of its attempt. */
function minimalReplyTo(deps: AttemptDeps, saved: Saved, { paperIndex, question, content }: FittedSave): Reply {
  const key = answerKeyOf(paperIndex);
  const head = 'stored' in saved ? saved.stored.whole() : saved.attempt;
  const stored = head.answers[key];
  if (stored === undefined) throw new Error(`attempt ${head._id} lacks the answer ${key} that was saved`);
  // A long text is stored in a row of its own; what was saved is what the caller sent.
  const data = savedAnswer(head, question, { ...stored, ...content }, new Date(deps.now()));
  return { status: 200, data, headers: MINIMAL_APPLIED };
}

/** Returns the detail of the attempt after the save, as JSON. */
async function replyTo(deps: AttemptDeps, saved: Saved, viewer: Viewer): Promise<TextReply['data']> {
  if ('stored' in saved && saved.texts !== undefined) {
    const limits = { now: new Date(deps.now()), eventLimit: SAVE_REPLY_EVENTS };
    const text = saved.texts.ofStored(saved.stored, viewer, limits);
    if (text !== null) return text;
  }
  const [attempt, texts] = 'stored' in saved ? [saved.stored.whole(), saved.texts] : [saved.attempt];
  return detailText(deps, attempt, viewer, SAVE_REPLY_EVENTS, texts);
}

function writeOf(ref: AttemptRef, fitted: FittedSave, sourceTabId: string | null): AnswerWrite {
  const { paperIndex, question, content, bytes, clientVersion } = fitted;
  return {
    attempt: ref,
    paperIndex,
    content,
    bytes,
    clientVersion,
    metadata: (serverVersion) =>
      saveAnswerMetadata({ questionId: question.questionId, serverVersion, clientVersion, sourceTabId }),
  };
}

/** Returns why the attempt refuses the save, or null if its current state does not. Submits an overdue attempt first. */
async function reasonOf(
  deps: AttemptDeps,
  attempt: Attempt,
  fitted: FittedSave | Rejection,
  viewer: Viewer,
): Promise<Rejection | null> {
  const whole = await withTexts(deps, attempt);
  const reason = whySaveRefused(whole, fitted, viewer, new Date(deps.now()));
  if (reason?.rejected !== 'ATTEMPT_DEADLINE_EXPIRED') return reason;
  // Commit the submit, by MongoDB's clock, before the reply reports an expired deadline. Do not wait for the worker's grade.
  return (await submitOverdue(deps, attempt)) ? reason : null;
}
