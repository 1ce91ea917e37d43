import type { TaskRequest, TaskResult } from './envelope.ts';
import type { TaskKind } from './task.ts';

/** The task was cancelled under its cancellation key while it was running. */
export class TaskCancelled extends Error {
  override readonly name = 'TaskCancelled';

  constructor({ cancellationKey }: { cancellationKey: string }) {
    super(`task cancelled: ${cancellationKey}`);
  }
}

/** The models of the provider in force. */
export interface Models {
  /**
   * Performs a task: the prompt is made from its payload, and the model is called until it returns a valid answer, the retries are spent
   * or the deadline has passed. Stores a usage event for each call.
   *
   * @throws ProviderFailure; TaskCancelled after a cancellation under its key in any process; the signal's reason if it was aborted
   */
  perform<Kind extends TaskKind>(request: TaskRequest<Kind>, signal: AbortSignal): Promise<TaskResult<Kind>>;
}
