import type { Schemas, Validator } from '#infra/schema/validator.ts';
import {
  type Models,
  TaskCancelled,
  type TaskPayloads,
  type TaskRequest,
  type TaskTerms,
  taskResult,
} from '#shared/classifier/tasks/envelope.ts';
import { TASK_FORMS, type TaskForm } from '#shared/classifier/tasks/forms.ts';
import { type ModelAnswer, type ModelTask, ProviderFailure, type TaskKind } from '#shared/classifier/tasks/task.ts';
import type { Now } from '#shared/kernel/time.ts';

export interface PerformParts {
  /** Calls the provider in force. @throws ProviderFailure, or the signal's reason */
  ask(task: ModelTask, terms: TaskTerms, signal: AbortSignal): Promise<ModelAnswer>;
  /** Calls `cancelled` when any process cancels this key. Returns the function that ends this. */
  listen(cancellationKey: string, cancelled: () => void): () => void;
  schemas: Pick<Schemas, 'validator'>;
  now: Now;
}

/** Returns models that perform tasks by their envelopes, each of which is checked where it is made. */
export function openTaskModels({ ask, listen, schemas, now }: PerformParts): Models {
  const faultsOfRequest = schemas.validator('classifier/ai-task-request-envelope');
  const faultsOfResult = schemas.validator('classifier/ai-task-result-envelope');

  return {
    async perform<Kind extends TaskKind>(request: TaskRequest<Kind>, signal: AbortSignal) {
      const unfit = firstFault(faultsOfRequest, request);
      if (unfit !== null) throw new Error(`task request does not fit its schema: ${unfit}`);
      const form: TaskForm<Kind> = TASK_FORMS[request.kind];
      const payload = request[request.kind as Kind] as unknown as TaskPayloads[Kind];

      const cancelled = new AbortController();
      const stopListening = listen(request.cancellationKey, () => cancelled.abort(new TaskCancelled(request)));
      let answer: ModelAnswer;
      try {
        answer = await ask(form.task(payload), request, AbortSignal.any([signal, cancelled.signal]));
      } finally {
        stopListening();
      }

      const read = form.read(payload, answer.json);
      if (read === null) throw unusable(answer, 'does not fit its task');
      const result = taskResult(request, read, answer, now());
      const fault = firstFault(faultsOfResult, result);
      if (fault !== null) throw unusable(answer, fault);
      return result;
    },
  };
}

function firstFault(faultsOf: Validator, envelope: unknown): string | null {
  const [fault] = faultsOf(envelope);
  return fault === undefined ? null : `${fault.path} ${fault.message}`;
}

function unusable({ provider }: ModelAnswer, why: string): ProviderFailure {
  return new ProviderFailure('AI_PROVIDER_INVALID_RESPONSE', 'refused', {
    message: `the answer of ${provider} cannot be used: ${why}`,
  });
}
