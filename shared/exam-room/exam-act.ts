import type { AboutAttempt } from '#shared/attempt/commands.ts';
import type { Examiner } from '#shared/attempt/extra-time.ts';
import type { Command, Order } from '#shared/kernel/command.ts';
import { ERRORS, isRejection } from '#shared/kernel/errors.ts';
import { derivedId } from '#shared/kernel/ids.ts';

/** Acts of examiners. Each is a command, an event of every attempt that it changes, and a row of the operators' audit. */

/** An act on the attempts of an exam. Its content is stored in a row of its own (`ExamActRow`). */
interface OnExam {
  kind: 'EXTRA_TIME' | 'SUBMIT_ALL';
  examId: string;
  by: Examiner;
}

/** An act on one attempt. */
export interface OnAttempt extends AboutAttempt {
  kind: 'SUBMIT' | 'REOPEN' | 'VOID' | 'RESTORE';
  by: Examiner;
  /** Minutes that a reopened attempt is open; absent for other acts. */
  minutes?: number;
  /** Absent after the erasure of the student. */
  statedReason?: string;
}

/** An act on a regrade of an exam, whose row has the changes and the reason. */
export interface OnRegrade {
  kind: 'REGRADE' | 'REGRADE_APPLY' | 'REGRADE_DISCARD';
  examId: string;
  regradeId: string;
  by: Examiner;
  statedReason: string;
}

export type ExamActBody = OnExam | OnAttempt | OnRegrade;
export type ExamActKind = ExamActBody['kind'];
/** Body, progress and result of the commands of the exam room. */
export interface ExamRoomCommands {
  examroom: { body: ExamActBody; progress: ExamActProgress | null; result: ExamActResult };
}

/** Progress of an act in steps: the id of the last attempt of the newest step. */
export interface ExamActProgress {
  afterId: string;
}

/**
 * Result of an act. That of an act on an exam is its reply; `remembered`: named students who are not sitting, null if it names none. `round` is
 * the round of an attempt that a submit has found; absent for the first one.
 */
export type ExamActResult =
  | { id: string; minutes: number; updated: number; remembered: number | null }
  | { id: string; submitted: number }
  | { attemptId: string; round?: number }
  | { regradeId: string };

/**
 * Returns the id of an act. A key of a caller makes one act of a kind on one exam or attempt, for ever, so a repeat meets the id of the
 * first.
 */
export function examActId(kind: ExamActKind, by: Examiner, on: string, idempotencyKey: string): string {
  return derivedId(on, `act:${JSON.stringify([kind, by.id, idempotencyKey])}`);
}

/** Returns the order of an act. Its key follows from its id, which alone leads to the command on its shard. */
export function examActOrder(id: string, subject: string, body: ExamActBody): Order<'examroom', ExamActBody> {
  return { ...examActRef(id), subject, body };
}

/** Returns the fields that lead to the command of an act. */
export function examActRef(_id: string) {
  return { _id, queue: 'examroom', key: `examroom:${_id}` } as const;
}

type ExamActCommand = Pick<
  Command<ExamActBody, ExamActProgress | null, ExamActResult>,
  '_id' | 'body' | 'status' | 'result' | 'createdAt' | 'settledAt'
>;

/** Returns the act as a reply shows it. A dead one is still RUNNING: it goes on when an operator replays it. */
export function examActView({ _id, body, status, result, createdAt, settledAt }: ExamActCommand) {
  const isOver = status === 'DONE' || status === 'REJECTED';
  const error = isRejection(result)
    ? { code: result.rejected, message: result.message ?? ERRORS[result.rejected].message }
    : null;
  return {
    id: _id,
    kind: body.kind,
    state: isOver ? status : ('RUNNING' as const),
    result: isRejection(result) ? null : resultForReply(result),
    error,
    createdAt: createdAt.toISOString(),
    finishedAt: isOver ? (settledAt?.toISOString() ?? null) : null,
  };
}

/** Returns the result without the round of a submit, which only the repeat of the submit reads. */
function resultForReply(result: ExamActResult | null) {
  return result !== null && 'attemptId' in result ? { attemptId: result.attemptId } : result;
}
