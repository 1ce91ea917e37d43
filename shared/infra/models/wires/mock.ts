import type { openAnswerChecks } from '#infra/schema/validator.ts';
import { mockAnswer } from '#shared/classifier/mock.ts';
import type { UsageEvent } from '#shared/classifier/provider/usage-event.ts';
import type { TaskTerms } from '#shared/classifier/tasks/envelope.ts';
import { type ModelAnswer, type ModelTask, ProviderFailure } from '#shared/classifier/tasks/task.ts';
import type { Now } from '#shared/kernel/time.ts';

/**
 * Returns the mock provider's answer, which is deterministic and needs no key, network or circuit.
 * @throws ProviderFailure if it finds no answer that fits, which is a fault of the task's schema
 */
export function askMock(
  task: ModelTask,
  { usageEvent }: TaskTerms,
  {
    model,
    now,
    recordUsage,
    checkOf,
  }: {
    model: string;
    now: Now;
    recordUsage(event: UsageEvent): void;
    checkOf: ReturnType<typeof openAnswerChecks>;
  },
): ModelAnswer {
  const json = mockAnswer(task);
  const [fault] = checkOf(task.schema)(json);
  const usage = { inputTokens: tokensIn(task.data), outputTokens: tokensIn(json) };
  recordUsage({
    ...usageEvent,
    ...usage,
    provider: 'mock',
    model,
    baseUrl: null,
    latencyMs: 0,
    attempt: 1,
    retryWaitMs: 0,
    circuit: 'closed',
    httpStatus: null,
    outcome: fault === undefined ? 'success' : 'failure',
    errorCode: fault === undefined ? null : 'AI_PROVIDER_INVALID_RESPONSE',
    providerRequestId: null,
    promptVersion: task.promptVersion,
    createdAt: new Date(now()),
  });
  if (fault === undefined) return { json, usage, provider: 'mock', model };
  throw new ProviderFailure('AI_PROVIDER_INVALID_RESPONSE', 'refused', {
    message: `the mock found no answer that fits the schema: ${fault.path} ${fault.message}`,
  });
}

/** Estimates the number of tokens in a value. */
function tokensIn(value: unknown): number {
  return Math.ceil((JSON.stringify(value) ?? '').length / 4);
}
