import type { OwnerScope } from '#infra/neighbours/owner-call.ts';
import type { WantedGeneration } from '#shared/classifier/generation-request.ts';
import { generateTask, readGeneration } from '#shared/classifier/tasks/generate.ts';
import { type TaskResult, taskRequest } from '#shared/classifier/tasks/task.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { askModel } from './ask-model.ts';
import type { PreviewDeps } from './preview-deps.ts';

/** A generation, and who wants it. */
export interface GenerationOrder {
  wanted: WantedGeneration;
  scope: OwnerScope;
  requestId: string;
}

/** Asks the model for the questions of an order. */
export async function generate(
  deps: PreviewDeps,
  { wanted, scope, requestId }: GenerationOrder,
  made: { previewId: string; references: Record<string, unknown>[] },
  signal: AbortSignal,
): Promise<TaskResult<'generate'> | Rejection> {
  const { referenceQuestionIds: _, ...rest } = wanted;
  const payload = { ...rest, references: made.references };
  const about = { organizationId: scope.organizationId, actorId: scope.actor.id, jobId: null, batchIndex: null };
  const request = taskRequest('generate', payload, { taskId: made.previewId, requestId, ...about });
  const read = (json: unknown) => {
    const questions = readGeneration(payload, json);
    return questions === null ? null : { questions };
  };
  return askModel(deps, request, { task: generateTask(payload), read }, signal);
}
