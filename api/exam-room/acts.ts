import type { ClientSession } from 'mongodb';
import type { AttemptDeps } from '#api/attempt/deps.ts';
import { ringAndWait } from '#api/ring-and-wait.ts';
import type { Call, Identity, Reply } from '#api/route.ts';
import type { ExamActRow } from '#infra/mongo/attempt/collections.ts';
import { inCausalOrder } from '#infra/mongo/causal-read.ts';
import { insertExamAct, storeExamAct } from '#infra/mongo/exam-room/exam-acts.ts';
import { hasExam } from '#infra/mongo/exam-room/examined.ts';
import { mayMove } from '#infra/mongo/exam-room/regraded-attempts.ts';
import { findRegrade } from '#infra/mongo/exam-room/regrades.ts';
import { type CommandOf, newCommand } from '#infra/mongo/mailbox/commands.ts';
import { readCommand, readEnd } from '#infra/mongo/mailbox/mailbox.ts';
import type { AttemptKey } from '#shared/attempt/attempt.ts';
import type { Examiner } from '#shared/attempt/extra-time.ts';
import {
  type ExamActBody,
  type ExamActResult,
  examActId,
  examActOrder,
  examActRef,
  examActView,
  type OnAttempt,
} from '#shared/exam-room/exam-act.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { examinerOf } from './examiner.ts';

/** How an act has ended. `late`: it goes on, and its reply is 202. */
type ActEnd =
  | { kind: 'done'; id: string; result: ExamActResult }
  | { kind: 'rejected'; rejection: Rejection }
  | { kind: 'late'; reply: Reply };

/** An act on the attempts of an exam, with the content of its row. */
type ActOnExam = Pick<ExamActRow, 'kind' | 'examId' | 'by' | 'minutes' | 'studentIds' | 'reason'>;
/** An act on one attempt. */
type ActOnAttempt = Omit<OnAttempt, 'attemptId' | 'studentId'> & { attempt: AttemptKey };

/**
 * Posts an act on an exam and waits for its worker, as long as a submit does. A repeat with the same key waits for the first act and ends as
 * that one did.
 */
export function actOnExam(deps: AttemptDeps, call: Call<unknown>, wanted: ActOnExam): Promise<ActEnd> {
  const { kind, examId, by } = wanted;
  const id = examActId(kind, by, examId, keyOf(call.identity));
  const now = deps.now();
  const order = examActOrder(id, examId, { kind, examId, by });
  const command = newCommand({ ...order, id, maxAttempts: deps.commandAttempts, now });
  const row = { ...wanted, _id: id, at: new Date(now), updated: 0, sitting: 0 };
  return endOf(deps, call, command, (session) => insertExamAct(deps.mongo, row, session));
}

/** Posts an act on one attempt and waits for its worker, as `actOnExam` does. */
export function actOnAttempt(
  deps: AttemptDeps,
  call: Call<unknown>,
  { attempt: { _id: attemptId, studentId }, ...act }: ActOnAttempt,
): Promise<ActEnd> {
  const id = examActId(act.kind, act.by, attemptId, keyOf(call.identity));
  const order = examActOrder(id, attemptId, { ...act, attemptId, studentId });
  return endOf(deps, call, newCommand({ ...order, id, maxAttempts: deps.commandAttempts, now: deps.now() }));
}

/** Stores the command of an act, with what `also` stores, and waits for its worker. */
export async function endOf(
  deps: AttemptDeps,
  call: Call<unknown>,
  wanted: CommandOf<'examroom'>,
  also: (session: ClientSession) => Promise<void> = async () => undefined,
): Promise<ActEnd> {
  const command = await storeExamAct(deps.mongo, wanted, also);
  await ringAndWait(deps, command, { timeoutMs: deps.settings.gradingWaitMs, signal: call.signal });
  return inCausalOrder(deps.mongo, async (session): Promise<ActEnd> => {
    const end = await readEnd(deps.mongo, command, session);
    if (end.kind === 'rejected') return end;
    if (end.kind === 'done') return { ...end, id: command._id };
    const headers = { Location: `/v1/exam-acts/${command._id}` };
    return { kind: 'late', reply: { status: 202, data: { act: examActView(command) }, headers } };
  });
}

/** Returns the idempotency key of an act. */
export function keyOf({ idempotency }: Identity): string {
  if (idempotency === undefined) throw new Error('the route of an act lacks its idempotency guard');
  return idempotency.key;
}

/** Returns the reply to an act on an exam: its result, its refusal, or the act itself if it is late. */
export function actReply(end: ActEnd): Reply | Rejection {
  switch (end.kind) {
    case 'done':
      return { status: 200, data: end.result };
    case 'rejected':
      return end.rejection;
    case 'late':
      return end.reply;
  }
}

/** Returns one act to the examiner who made it, or to an admin. An act on a regrade is for all who may apply the regrade. */
export async function readExamAct(deps: AttemptDeps, call: Call): Promise<Reply | Rejection> {
  const reader = examinerOf(call.identity);
  const command = await readCommand(deps.mongo, examActRef(call.params.actId ?? ''));
  if (command === null || !(await mayRead(deps, command.body, reader))) return { rejected: 'EXAM_ACT_NOT_FOUND' };
  return { status: 200, data: { act: examActView(command) } };
}

/** Returns true if an act is one of the reader's. Examiners who apply a regrade at the same time wait for the act of one of them. */
async function mayRead({ mongo }: AttemptDeps, act: ExamActBody, reader: Examiner): Promise<boolean> {
  if (reader.role === 'ADMIN' || act.by.id === reader.id) return true;
  if (!('regradeId' in act) || !(await hasExam(mongo, act.examId, reader))) return false;
  const regrade = await findRegrade(mongo, { _id: act.regradeId, examId: act.examId });
  return regrade !== null && mayMove(mongo, regrade, reader);
}
