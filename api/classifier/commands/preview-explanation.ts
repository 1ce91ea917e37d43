import { askModel } from '#api/classifier/ask-model.ts';
import { callerOf } from '#api/classifier/caller.ts';
import type { PreviewDeps } from '#api/classifier/preview-deps.ts';
import type { Call, Reply } from '#api/route.ts';
import { explanationPreview } from '#shared/classifier/preview.ts';
import { explainTask, readSolution } from '#shared/classifier/tasks/explain-and-grade.ts';
import { taskRequest } from '#shared/classifier/tasks/task.ts';
import type { ExplanationRequest } from '#shared/generated/classifier.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { newId } from '#shared/kernel/ids.ts';

/** The solution of a question, for its editor. */
export async function previewExplanation(
  deps: PreviewDeps,
  call: Call<ExplanationRequest>,
): Promise<Reply | Rejection> {
  const { organizationId, actorId } = callerOf(call.identity);
  const about = { organizationId, actorId, requestId: call.requestId, jobId: null, batchIndex: null };
  const request = taskRequest('explain', call.body, { taskId: newId(deps.now()), ...about });
  const result = await askModel(deps, request, { task: explainTask(call.body), read: readSolution }, call.signal);
  return isRejection(result) ? result : { status: 200, data: explanationPreview(result) };
}
