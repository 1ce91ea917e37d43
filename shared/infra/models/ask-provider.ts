import type { AnswerForm } from '#infra/models/wires/wire.ts';
import { MAX_ANSWER_FAULTS, type openAnswerChecks } from '#infra/schema/validator.ts';
import type { Repair } from '#shared/classifier/tasks/prompt.ts';
import { valueFaults } from '#shared/classifier/tasks/read-answer.ts';
import { type ModelAnswer, type ModelTask, ProviderFailure } from '#shared/classifier/tasks/task.ts';
import type { FaultDetail } from '#shared/kernel/errors.ts';
import { membersOf } from '#shared/kernel/json.ts';
import { type CallParts, type CallPlan, callOnce } from './provider-call.ts';
import { type Budget, callWithRetries } from './retries.ts';

export interface AskParts extends CallParts {
  maxRetries: number;
  /** Answer forms of servers that rejected another form, by origin and model. */
  forms: Map<string, AnswerForm>;
  checkOf: ReturnType<typeof openAnswerChecks>;
}

type Check = (json: unknown) => FaultDetail[];

/** Returns the check of a task's answers: their texts and numbers, then their schema, then their sense. */
function faultsOf(task: ModelTask, checkSchema: Check): Check {
  return (json) => {
    const faults = [...valueFaults(json), ...checkSchema(json)];
    return (faults.length > 0 ? faults : (task.senseFaults?.(json) ?? [])).slice(0, MAX_ANSWER_FAULTS);
  };
}

/** Returns the answer with those items of its list that fit; null if none does, or if the answer is unfit without them. */
function fittingItems({ list }: ModelTask, json: unknown, check: Check): unknown {
  const items = list === undefined ? undefined : membersOf(json)[list];
  if (list === undefined || !Array.isArray(items)) return null;
  const of = (some: unknown[]) => ({ ...membersOf(json), [list]: some });
  const fitting = items.filter((item) => check(of([item])).length === 0);
  return fitting.length > 0 && check(of(fitting)).length === 0 ? of(fitting) : null;
}

/** A task and the provider to call for it. */
export type Ask = Pick<CallPlan, 'target' | 'wire' | 'dispatcher' | 'slots' | 'task' | 'terms' | 'signal'>;

const NEXT_FORM = { schema: 'json', json: 'prompt', prompt: 'prompt' } as const;

/**
 * Calls a provider until an answer fits the task's schema. All calls, waits and the repairs of an unfit answer that the task allows
 * share one deadline and one number of retries.
 * @throws ProviderFailure, or the signal's reason
 */
export async function askProvider(parts: AskParts, ask: Ask): Promise<ModelAnswer> {
  const { target, wire, task, signal } = ask;
  const { repairs, structuredOutput } = ask.terms.features;
  const budget: Budget = {
    deadlineAt: parts.timing.clock() + parts.timeoutMs * (parts.maxRetries + 1),
    retriesLeft: parts.maxRetries,
    calls: 0,
    usage: { inputTokens: null, outputTokens: null },
  };
  const server = `${target.origin} ${target.model}`;
  const check = faultsOf(task, parts.checkOf(task.schema));
  const ownForm: AnswerForm = structuredOutput ? wire.form(target, task.schema) : 'prompt';
  let repair: Repair | null = null;
  let repaired = 0;
  for (;;) {
    const form: AnswerForm = parts.forms.get(server) ?? ownForm;
    const result = await callWithRetries(parts.timing, budget, signal, (turn) =>
      callOnce(parts, { ...ask, form, check, repair, budget }, turn),
    );
    const answer = { usage: budget.usage, provider: target.provider, model: target.model };
    if (result.kind === 'fits') return { json: result.json, ...answer };
    if (result.kind === 'otherForm') {
      parts.forms.set(server, NEXT_FORM[form]);
    } else if (repaired < repairs) {
      repair = result.repair;
      repaired += 1;
    } else {
      const json = fittingItems(task, result.json, check);
      if (json !== null) return { json, ...answer };
      // The message contains the path and the expected value only, because the answer itself may contain request data.
      const [fault] = result.repair.faults;
      throw new ProviderFailure('AI_PROVIDER_INVALID_RESPONSE', 'refused', {
        message: `${target.provider} answered twice what does not fit: ${fault?.path ?? ''} ${fault?.message ?? ''}`,
      });
    }
  }
}
