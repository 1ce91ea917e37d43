import type { Call, Reply } from '#api/route.ts';
import { findListed, type ListedExam, listExams } from '#infra/mongo/exam-room/exams.ts';
import type { ExamListQuery } from '#shared/generated/exam-room.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { examinerOf } from './examiner.ts';
import type { ReadDeps } from './read-deps.ts';

const EXAMS_PER_PAGE = 20;

/** Returns a page of the exams that the caller examines, the newest first. */
export async function listExaminedExams(
  deps: ReadDeps,
  { identity, query }: Call<never, ExamListQuery>,
): Promise<Reply | Rejection> {
  const before = query.before == null ? null : await findListed(deps.mongo, query.before);
  if (query.before != null && before === null) {
    return { rejected: 'VALIDATION_FAILED', details: [{ path: '/before', message: 'must be `next` of a reply' }] };
  }
  const page = await listExams(deps.mongo, {
    by: examinerOf(identity),
    state: query.state ?? null,
    before,
    limit: query.limit ?? EXAMS_PER_PAGE,
    now: new Date(deps.now()),
  });
  return { status: 200, data: { items: page.exams.map(examForReply), next: page.next } };
}

function examForReply({ row, counts }: ListedExam) {
  return {
    examId: row._id,
    title: row.title,
    subject: row.subject,
    gradeLevel: row.gradeLevel,
    organizationId: row.organizationId,
    open: counts.open,
    submitted: counts.submitted,
    graded: counts.graded,
    pendingManual: counts.pendingManual,
    voided: counts.voided,
    firstStartedAt: row.firstStartedAt.toISOString(),
    lastDeadlineAt: counts.lastDeadlineAt?.toISOString() ?? null,
  };
}
