import {
  type ModelTask,
  ProviderFailure,
  type TaskKind,
  type TaskRequest,
  type TaskResult,
  type TaskResults,
  taskResult,
} from '#shared/classifier/tasks/task.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import type { PreviewDeps } from './preview-deps.ts';

/** How a task is put to a model, and what is read of its answer; null = it cannot be used. */
export interface Asking<Kind extends TaskKind> {
  task: ModelTask;
  read(json: unknown): TaskResults[Kind] | null;
}

/** From the envelope of a request to that of its result. What a provider cannot do becomes a refusal, in our words only. */
export async function askModel<Kind extends TaskKind>(
  { models, now }: Pick<PreviewDeps, 'models' | 'now'>,
  request: TaskRequest<Kind>,
  { task, read }: Asking<Kind>,
  signal: AbortSignal,
): Promise<TaskResult<Kind> | Rejection> {
  try {
    const answer = await models.ask(task, request.usageEvent, signal);
    const result = read(answer.json);
    return result === null ? { rejected: 'AI_PROVIDER_INVALID_RESPONSE' } : taskResult(request, result, answer, now());
  } catch (error) {
    if (!(error instanceof ProviderFailure)) throw error;
    const { code, retryAfterMs } = error;
    return { rejected: code, ...(retryAfterMs === null ? {} : { retryAfter: Math.ceil(retryAfterMs / 1_000) }) };
  }
}
