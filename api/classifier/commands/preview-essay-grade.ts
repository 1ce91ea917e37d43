import { askModel } from '#api/classifier/ask-model.ts';
import { callerOf } from '#api/classifier/caller.ts';
import type { PreviewDeps } from '#api/classifier/preview-deps.ts';
import type { Call, Reply } from '#api/route.ts';
import { essayGradePreview } from '#shared/classifier/preview.ts';
import { gradeFaults, gradeTask, readGrade } from '#shared/classifier/tasks/explain-and-grade.ts';
import { taskRequest } from '#shared/classifier/tasks/task.ts';
import type { EssayGradeRequest } from '#shared/generated/classifier.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { newId } from '#shared/kernel/ids.ts';

/** The grade of an essay by its rubric, and the handoff with which the attempt service takes it. */
export async function previewEssayGrade(deps: PreviewDeps, call: Call<EssayGradeRequest>): Promise<Reply | Rejection> {
  const essay = call.body;
  const details = gradeFaults(essay);
  if (details.length > 0) return { rejected: 'VALIDATION_FAILED', details };
  const { organizationId, actorId } = callerOf(call.identity);
  const about = { organizationId, actorId, requestId: call.requestId, jobId: null, batchIndex: null };
  const request = taskRequest('grade', essay, { taskId: newId(deps.now()), ...about });
  const read = (json: unknown) => readGrade(essay, json);
  const result = await askModel(deps, request, { task: gradeTask(essay), read }, call.signal);
  return isRejection(result) ? result : { status: 200, data: essayGradePreview(result, essay) };
}
