import type { AttemptDeps } from '#api/attempt/deps.ts';
import { listReply } from '#api/http/streamed.ts';
import type { Call, RawReply, Reply } from '#api/route.ts';
import { erasedAmong } from '#infra/mongo/erased-persons.ts';
import { timeGrants } from '#infra/mongo/exam-room/exam-acts.ts';
import { grantForReply } from '#shared/exam-room/extra-time.ts';
import type { ExtraTimeRequest } from '#shared/generated/exam-room.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { actOnExam, actReply } from './acts.ts';
import { examOf } from './examiner.ts';

/** Gives minutes to open attempts of an exam, and to the named students who start it later. */
export async function giveExtraTime(deps: AttemptDeps, call: Call<ExtraTimeRequest>): Promise<Reply | Rejection> {
  const found = await examOf(deps, call);
  if (isRejection(found)) return found;
  const { examId, by } = found;
  const { minutes, reason } = call.body;
  const studentIds = await namedStudents(deps, call.body.studentIds);
  return actReply(await actOnExam(deps, call, { kind: 'EXTRA_TIME', examId, by, minutes, studentIds, reason }));
}

/** Returns the students whom an act names, each once; null means all. The id of an erased one is stored nowhere any more. */
export async function namedStudents(
  { mongo }: AttemptDeps,
  studentIds: readonly string[] | null | undefined,
): Promise<string[] | null> {
  if (studentIds == null) return null;
  const named = [...new Set(studentIds)];
  const erased = await erasedAmong(mongo, named);
  return named.filter((id) => !erased.has(id));
}

/** Streams the grants of an exam, newest first: each of them may name ten thousand students. */
export async function listExtraTime(deps: AttemptDeps, call: Call): Promise<RawReply | Rejection> {
  const found = await examOf(deps, call);
  if (isRejection(found)) return found;
  const items = async function* () {
    for await (const grant of timeGrants(deps.mongo, found.examId)) yield JSON.stringify(grantForReply(grant));
  };
  return listReply(call.signal, items, 'items');
}
