import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { answerBytes, fitAnswer, type PickedAnswer } from './answer.ts';
import { type AnswerContent, type Attempt, answerKeyOf, isOver } from './attempt.ts';
import { MAX_ANSWER_BYTES } from './limits.ts';
import { type Paper, paperIndexOf, type Question } from './question.ts';
import { answerForReply } from './redact.ts';
import { isOwner, type Viewer } from './visibility.ts';

/** What an accepted save writes. `serverVersion` and `answerBytes` hold only if the attempt is still as it was read. */
export interface SaveDecision {
  paperIndex: number;
  question: Question;
  content: AnswerContent;
  clientVersion: number;
  /** Of this answer. */
  bytes: number;
  /** The stored version that the save replaces, 0 for none. */
  replaces: number;
  serverVersion: number;
  /** Of the whole attempt, after the save. */
  answerBytes: number;
}

/**
 * May this save be written? Judged in the order owner, locked, deadline, question, kind, version, size. The store
 * repeats owner, status, deadline and version in the filter of its update; this is also how a miss is explained.
 * ATTEMPT_DEADLINE_EXPIRED obliges the caller to commit the TIMEOUT submit. A conflict carries the current answer.
 */
export function decideSave(
  attempt: Attempt,
  paper: Paper,
  save: { questionId: string; answer: PickedAnswer; clientVersion: number },
  viewer: Viewer,
  now: Date,
): SaveDecision | Rejection {
  if (!isOwner(attempt, viewer)) return { rejected: 'FORBIDDEN' };
  if (attempt.status !== 'IN_PROGRESS') return { rejected: 'ATTEMPT_LOCKED' };
  if (isOver(attempt.deadlineAt, now)) return { rejected: 'ATTEMPT_DEADLINE_EXPIRED' };
  const paperIndex = paperIndexOf(attempt._id, paper, save.questionId);
  const question = paperIndex === null ? undefined : paper.questions[paperIndex];
  if (paperIndex === null || question === undefined) return { rejected: 'QUESTION_NOT_IN_ATTEMPT' };
  const content = fitAnswer(save.answer, question);
  if (isRejection(content)) return content;
  const stored = attempt.answers[answerKeyOf(paperIndex)];
  if (stored !== undefined && isStale(stored, save.clientVersion)) {
    return { rejected: 'ANSWER_VERSION_CONFLICT', data: { answer: answerForReply(question, stored, false) } };
  }
  const bytes = answerBytes(content);
  const total = attempt.answerBytes - (stored?.bytes ?? 0) + bytes;
  if (total > MAX_ANSWER_BYTES) return { rejected: 'ATTEMPT_TOO_LARGE' };
  const replaces = stored?.serverVersion ?? 0;
  const { clientVersion } = save;
  return {
    paperIndex,
    question,
    content,
    clientVersion,
    bytes,
    replaces,
    serverVersion: replaces + 1,
    answerBytes: total,
  };
}

/** A client that names a version must have seen the newest one; 0 names none and overwrites. */
function isStale(stored: { serverVersion: number }, clientVersion: number): boolean {
  return clientVersion > 0 && stored.serverVersion > clientVersion;
}
