import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { answerBytes, fitAnswer, type PickedAnswer } from './answer.ts';
import { type AnswerContent, type Attempt, answerKeyOf, isOver } from './attempt.ts';
import { MAX_ANSWER_BYTES } from './limits.ts';
import { type IdFacts, type Paper, paperIndexOf, type Question } from './question.ts';
import { answerForReply } from './redact.ts';
import { isOwner, type Viewer } from './visibility.ts';

/** A save that fits its paper: the content to write and its question. */
export interface FittedSave {
  paperIndex: number;
  question: Question;
  content: AnswerContent;
  /** Size of this answer, see `answerBytes`. */
  bytes: number;
  clientVersion: number;
}

/** Finds the question of a save and checks the answer against it. These rules read only the paper and facts that never change. */
export function fitSave(
  attempt: IdFacts,
  paper: Paper,
  save: { questionId: string; answer: PickedAnswer; clientVersion: number },
): FittedSave | Rejection {
  const paperIndex = paperIndexOf(attempt, paper, save.questionId);
  const question = paperIndex === null ? undefined : paper.questions[paperIndex];
  if (paperIndex === null || question === undefined) return { rejected: 'QUESTION_NOT_IN_ATTEMPT' };
  const content = fitAnswer(save.answer, question);
  if (isRejection(content)) return content;
  return { paperIndex, question, content, bytes: answerBytes(content), clientVersion: save.clientVersion };
}

/**
 * Returns why the attempt refuses this save, or null. Rules apply in the order owner, status, deadline, question, kind, version,
 * size. The store's update checks status, deadline, version and size itself; this function explains its refusal.
 * On ATTEMPT_DEADLINE_EXPIRED the caller must commit the TIMEOUT submit. A version conflict contains the current answer.
 */
export function whySaveRefused(
  attempt: Attempt,
  fitted: FittedSave | Rejection,
  viewer: Viewer,
  now: Date,
): Rejection | null {
  if (!isOwner(attempt, viewer)) return { rejected: 'FORBIDDEN' };
  if (attempt.status !== 'IN_PROGRESS') return { rejected: 'ATTEMPT_LOCKED' };
  if (isOver(attempt.deadlineAt, now)) return { rejected: 'ATTEMPT_DEADLINE_EXPIRED' };
  if (isRejection(fitted)) return fitted;
  const { paperIndex, question, bytes, clientVersion } = fitted;
  const stored = attempt.answers[answerKeyOf(paperIndex)];
  if (stored !== undefined && isStale(stored, clientVersion)) {
    return { rejected: 'ANSWER_VERSION_CONFLICT', data: { answer: answerForReply(question, stored, false) } };
  }
  const total = attempt.answerBytes - (stored?.bytes ?? 0) + bytes;
  return total > MAX_ANSWER_BYTES ? { rejected: 'ATTEMPT_TOO_LARGE' } : null;
}

/** Returns true if the client has not seen the newest version. Version 0 is never stale and overwrites any answer. */
function isStale(stored: { serverVersion: number }, clientVersion: number): boolean {
  return clientVersion > 0 && stored.serverVersion > clientVersion;
}
