import type { AttemptDeps } from '#api/attempt/deps.ts';
import { listReply } from '#api/http/streamed.ts';
import type { Call, RawReply, Reply } from '#api/route.ts';
import type { ExamActRow } from '#infra/mongo/attempt/collections.ts';
import { erasedAmong } from '#infra/mongo/erased-persons.ts';
import { timeGrants } from '#infra/mongo/exam-room/exam-acts.ts';
import { examinedAmong } from '#infra/mongo/exam-room/examined.ts';
import type { Examiner } from '#shared/attempt/extra-time.ts';
import { grantForReply, namedByAnother } from '#shared/exam-room/extra-time.ts';
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

/** Grants and named students of one read, by which a teacher's list is decided. Most exams have fewer. */
const PER_READ = 10_000;

/** Streams the grants of an exam that the caller may see, newest first: each of them may name ten thousand students. */
export async function listExtraTime(deps: AttemptDeps, call: Call): Promise<RawReply | Rejection> {
  const found = await examOf(deps, call);
  if (isRejection(found)) return found;
  return listReply(call.signal, () => grantItems(deps, found), 'items');
}

async function* grantItems({ mongo }: AttemptDeps, exam: { examId: string; by: Examiner }): AsyncGenerator<string> {
  const itemsOf = async (grants: readonly ExamActRow[]) => {
    const named = new Set(grants.flatMap((grant) => namedByAnother(grant, exam.by) ?? []));
    const examined = await examinedAmong(mongo, exam, [...named]);
    const shown = grants.map((grant) => grantForReply(grant, exam.by, examined));
    return shown.flatMap((grant) => (grant === null ? [] : JSON.stringify(grant)));
  };

  let grants: ExamActRow[] = [];
  let size = 0;
  for await (const grant of timeGrants(mongo, exam.examId)) {
    grants.push(grant);
    size += 1 + (grant.studentIds?.length ?? 0);
    if (size < PER_READ) continue;
    yield* await itemsOf(grants);
    [grants, size] = [[], 0];
  }
  yield* await itemsOf(grants);
}
