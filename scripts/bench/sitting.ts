import type { StoredPaper } from '#infra/mongo/attempt/collections.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
import { attemptEvent, saveAnswerMetadata } from '#shared/attempt/events.ts';
import { HOUR } from '#shared/kernel/time.ts';
import { sampleAttempt } from '#testing/stored/sample-attempt.ts';
import { benchPaper, storedAnswers } from './exam.ts';

const STUDENT = 'student-bench';
const PAPER_ID = 'paper-of-the-bench';
/** Events of a tail between two rolls. */
const EVENTS = 30;

/** Returns the attempt of a student who has answered all forty questions, in an order of its own, and its paper. */
export function benchSitting(): { attempt: Attempt; paper: StoredPaper } {
  const paper = benchPaper();
  const now = new Date();
  const indexes = paper.questions.map((_, index) => index);
  const events = Array.from({ length: EVENTS }, (_, index) => {
    const save = { questionId: `toan-${index + 1}`, serverVersion: 1, clientVersion: 0, sourceTabId: null };
    return attemptEvent(index + 1, 'SAVE_ANSWER', saveAnswerMetadata(save), now);
  });
  const attempt = sampleAttempt({
    studentId: STUDENT,
    paperId: PAPER_ID,
    startedAt: now,
    deadlineAt: new Date(now.getTime() + HOUR),
    order: indexes.toReversed(),
    optionOrders: paper.questions.map(({ options }) => options.map((_, index) => index).toReversed()),
    answers: storedAnswers(paper),
    events,
    eventSeq: EVENTS,
    maxScore: 15,
  });
  return { attempt, paper: { _id: PAPER_ID, ...paper } };
}
