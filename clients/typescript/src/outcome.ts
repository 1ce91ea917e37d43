import type { AttemptDetail, BulkAct } from './generated.ts';
import type { OperationName, PendingName } from './operation.ts';

/** How the result of a 202 is read: from the object that its data names, or by the same request again, whose reply is then final. */
export type FollowRule = 'again' | FollowedObject;

interface FollowedObject {
  readonly operation: OperationName;
  /** Returns the input of the operation that reads the object. */
  inputOf(data: unknown): Record<string, string>;
  isFinal(data: unknown): boolean;
}

const ATTEMPT: FollowedObject = {
  operation: 'readAttempt',
  inputOf: (data) => ({ attemptId: (data as AttemptDetail).id }),
  isFinal: (data) => (data as AttemptDetail).status === 'GRADED',
};
const BULK_ACT: FollowedObject = {
  operation: 'getBulkAct',
  inputOf: (data) => ({ id: (data as BulkAct).id }),
  isFinal: (data) => (data as BulkAct).endedAt !== null,
};

/** The rule of each operation that may answer 202. A new one does not compile until it has a rule. */
export const FOLLOW_RULES: Readonly<Record<PendingName, FollowRule>> = {
  submitAttempt: ATTEMPT,
  postEvent: ATTEMPT,
  handOffGrade: 'again',
  releaseResults: 'again',
  replayDeadLetters: BULK_ACT,
  ackDeadLetters: BULK_ACT,
  dropDeadLetters: BULK_ACT,
};

const FIRST_POLL_MS = 1_000;
const LAST_POLL_MS = 5_000;

/** Returns the pause before the next read of a result (ms): one second first, five at most, with a random part. */
export function pollPauseMs(reads: number): number {
  return Math.min(LAST_POLL_MS, FIRST_POLL_MS * 1.5 ** reads) * (0.8 + Math.random() * 0.4);
}
