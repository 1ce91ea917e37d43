import type { AnswerForm } from '#infra/models/wires/wire.ts';
import type { openAnswerChecks } from '#infra/schema/validator.ts';
import type { Repair } from '#shared/classifier/tasks/prompt.ts';
import { type ModelAnswer, ProviderFailure } from '#shared/classifier/tasks/task.ts';
import { type Budget, callWithRetries } from './retries.ts';
import { type Try, type TryParts, tryProvider } from './try-provider.ts';

export interface AskParts extends TryParts {
  maxRetries: number;
  /** Answer forms of servers that rejected another form, by origin and model. */
  forms: Map<string, AnswerForm>;
  checkOf: ReturnType<typeof openAnswerChecks>;
}

/** A task and the provider to call for it. */
export type Ask = Pick<Try, 'target' | 'wire' | 'dispatcher' | 'slots' | 'task' | 'about' | 'signal'>;

const NEXT_FORM = { schema: 'json', json: 'prompt', prompt: 'prompt' } as const;

/**
 * Calls a provider until an answer fits the task's schema. All calls, waits and the single repair of an unfit answer share
 * one deadline and one number of retries.
 * @throws ProviderFailure, or the signal's reason
 */
export async function askProvider(parts: AskParts, ask: Ask): Promise<ModelAnswer> {
  const { target, wire, task, signal } = ask;
  const budget: Budget = {
    deadlineAt: parts.patience.clock() + parts.timeoutMs * (parts.maxRetries + 1),
    retriesLeft: parts.maxRetries,
    tries: 0,
  };
  const place = `${target.origin} ${target.model}`;
  const check = parts.checkOf(task.schema);
  let repair: Repair | null = null;
  for (;;) {
    const form: AnswerForm = parts.forms.get(place) ?? wire.form(target, task.schema);
    const tried = await callWithRetries(parts.patience, budget, signal, (turn) =>
      tryProvider(parts, { ...ask, form, check, repair, budget }, turn),
    );
    if (tried.kind === 'fits') {
      return { json: tried.json, usage: tried.usage, provider: target.provider, model: target.model };
    }
    if (tried.kind === 'otherForm') {
      parts.forms.set(place, NEXT_FORM[form]);
    } else if (repair === null) {
      repair = tried.repair;
    } else {
      // The message contains the path and the expected value only, because the answer itself may contain request data.
      const [fault] = tried.repair.faults;
      throw new ProviderFailure('AI_PROVIDER_INVALID_RESPONSE', 'refused', {
        message: `${target.provider} answered twice what does not fit: ${fault?.path ?? ''} ${fault?.message ?? ''}`,
      });
    }
  }
}
