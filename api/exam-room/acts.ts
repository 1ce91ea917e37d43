import type { AttemptDeps } from '#api/attempt/deps.ts';
import { ringAndWait } from '#api/ring-and-wait.ts';
import type { Call, Identity, Reply } from '#api/route.ts';
import type { ExamActRow } from '#infra/mongo/attempt/collections.ts';
import { inCausalOrder } from '#infra/mongo/causal-read.ts';
import { storeExamAct } from '#infra/mongo/exam-room/exam-acts.ts';
import { newCommand } from '#infra/mongo/mailbox/commands.ts';
import { readCommand, readEnd } from '#infra/mongo/mailbox/mailbox.ts';
import {
  type ExamActBody,
  type ExamActResult,
  examActId,
  examActOrder,
  examActRef,
  examActView,
} from '#shared/exam-room/exam-act.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { examinerOf } from './examiner.ts';

/** How an act has ended. `late`: it goes on, and its reply is 202. */
type ActEnd =
  | { kind: 'done'; result: ExamActResult }
  | { kind: 'rejected'; rejection: Rejection }
  | { kind: 'late'; reply: Reply };

/** An act to post: its body, the attempt or exam that it is on, and the row of an act on an exam. */
interface Wanted {
  body: ExamActBody;
  on: string;
  row?: Omit<ExamActRow, '_id' | 'kind' | 'at' | 'updated' | 'sitting'>;
}

/**
 * Posts the act of an examiner and waits for its worker, as long as a submit does. A repeat with the same key waits for the first act and
 * ends as that one did.
 */
export async function act(deps: AttemptDeps, call: Call<unknown>, { body, on, row }: Wanted): Promise<ActEnd> {
  const now = deps.now();
  const id = examActId(body.kind, body.by, on, keyOf(call.identity));
  const wanted = newCommand({ ...examActOrder(id, on, body), id, maxAttempts: deps.commandAttempts, now });
  const about =
    row === undefined ? null : { ...row, _id: id, kind: body.kind, at: new Date(now), updated: 0, sitting: 0 };
  const command = await storeExamAct(deps.mongo, wanted, about);
  await ringAndWait(deps, command, { timeoutMs: deps.settings.gradingWaitMs, signal: call.signal });
  return inCausalOrder(deps.mongo, async (session): Promise<ActEnd> => {
    const end = await readEnd(deps.mongo, command, session);
    if (end.kind === 'done' || end.kind === 'rejected') return end;
    const headers = { Location: `/v1/exam-acts/${id}` };
    return { kind: 'late', reply: { status: 202, data: { act: examActView(command) }, headers } };
  });
}

function keyOf({ idempotency }: Identity): string {
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

/** Returns one act to the examiner who made it, or to an admin. */
export async function readExamAct(deps: AttemptDeps, call: Call): Promise<Reply | Rejection> {
  const reader = examinerOf(call.identity);
  const command = await readCommand(deps.mongo, examActRef(call.params.actId ?? ''));
  const mayRead = command !== null && (reader.role === 'ADMIN' || command.body.by.id === reader.id);
  return mayRead ? { status: 200, data: { act: examActView(command) } } : { rejected: 'EXAM_ACT_NOT_FOUND' };
}
