import type { LimitFunction } from 'p-limit';
import type { Dispatcher } from 'undici';
import { type AnswerForm, type StreamFold, sumOf, type Wire } from '#infra/models/wires/wire.ts';
import type { ProviderName } from '#shared/classifier/provider/names.ts';
import type { Target } from '#shared/classifier/provider/target.ts';
import type { UsageEvent } from '#shared/classifier/provider/usage-event.ts';
import type { TaskTerms } from '#shared/classifier/tasks/envelope.ts';
import { promptOf, type Repair } from '#shared/classifier/tasks/prompt.ts';
import { type ModelTask, ProviderFailure, type TokenUsage } from '#shared/classifier/tasks/task.ts';
import type { FaultDetail } from '#shared/kernel/errors.ts';
import { type Now, spreadWait } from '#shared/kernel/time.ts';
import { type CheckedAnswer, checkAnswer, failureWithoutAnswer } from './check-answer.ts';
import type { Circuits } from './circuits.ts';
import { CallFailed, callProvider, type HttpAnswer } from './http-call.ts';
import { type Budget, MAX_WAIT_MS, type Timing, type Turn } from './retries.ts';

/** A target that is called over HTTP. */
export type HttpTarget = Target & { provider: Exclude<ProviderName, 'mock'>; baseUrl: string };

/** Settings and services that every provider call uses. */
export interface CallParts {
  circuits: Circuits;
  timing: Timing;
  now: Now;
  timeoutMs: number;
  streaming: boolean;
  recordUsage(event: UsageEvent): void;
}

/** A task, the provider to call for it and the form of the answer. */
export interface CallPlan {
  target: HttpTarget;
  wire: Wire;
  form: AnswerForm;
  dispatcher: Dispatcher;
  /** Limits the concurrent calls of this process to this provider. */
  slots: LimitFunction;
  task: ModelTask;
  terms: TaskTerms;
  check(value: unknown): FaultDetail[];
  repair: Repair | null;
  budget: Budget;
  signal: AbortSignal;
}

type CallResult =
  | { kind: 'fits'; json: unknown }
  | { kind: 'unfit'; repair: Repair; json: unknown }
  /** The server does not support this form of answer. */
  | { kind: 'otherForm' };

/** An admitted call. `asTrial`: it tests an open circuit. */
interface AdmittedTurn extends Turn {
  asTrial: boolean;
  timeoutMs: number;
}

/**
 * Makes one provider call once the circuit and a slot allow it, and records a usage event. If the provider has requested a
 * pause that fits into the budget, the call waits for its end.
 * @throws CallAttemptFailed; ProviderFailure if no call was made (`open`, or `passing` if time ran out); the signal's reason
 */
export async function callOnce(parts: CallParts, plan: CallPlan, turn: Turn): Promise<CallResult> {
  const { budget, signal, slots } = plan;
  for (;;) {
    const waitMs = budget.deadlineAt - parts.timing.clock();
    const late = () => outOfTime(plan.target);
    const step = await runInSlot(slots, { signal, waitMs, late }, () => admitAndCall(parts, plan, turn));
    if (step.kind !== 'paused') return step;
    const { retryAfterMs } = step;
    const fits = retryAfterMs <= MAX_WAIT_MS && parts.timing.clock() + retryAfterMs < budget.deadlineAt;
    if (!fits) {
      const message = `${plan.target.provider} is rate-limiting requests`;
      throw new ProviderFailure('AI_PROVIDER_THROTTLED', 'open', { message, retryAfterMs });
    }
    await parts.timing.sleep(spreadWait(retryAfterMs, parts.timing.random()), signal);
  }
}

function outOfTime({ provider }: Target): ProviderFailure {
  return new ProviderFailure('AI_PROVIDER_TIMEOUT', 'passing', {
    message: `no time left to call ${provider}`,
  });
}

async function admitAndCall(
  parts: CallParts,
  plan: CallPlan,
  turn: Turn,
): Promise<CallResult | { kind: 'paused'; retryAfterMs: number }> {
  const { target, budget, signal } = plan;
  signal.throwIfAborted();
  const leftMs = budget.deadlineAt - parts.timing.clock();
  if (leftMs <= 0) throw outOfTime(target);
  const admission = await parts.circuits.admit(target);
  switch (admission.kind) {
    case 'throttled':
      return { kind: 'paused', retryAfterMs: admission.retryAfterMs };
    case 'open': {
      const message = `calls to ${target.provider} are suspended after repeated failures`;
      const { retryAfterMs } = admission;
      throw new ProviderFailure('AI_PROVIDER_CIRCUIT_OPEN', 'open', { message, retryAfterMs });
    }
    case 'call':
    case 'trial': {
      const asTrial = admission.kind === 'trial';
      return call(parts, plan, { ...turn, asTrial, timeoutMs: Math.min(parts.timeoutMs, Math.ceil(leftMs)) });
    }
  }
}

/**
 * Makes the call, updates the circuit and records a usage event. A good answer is returned at once: it changes nothing that the next
 * call depends on, unless it is that of a trial. Any other result is returned after the circuit has counted it.
 */
async function call(parts: CallParts, plan: CallPlan, turn: AdmittedTurn): Promise<CallResult> {
  const { target, signal } = plan;
  const startedAt = parts.timing.clock();
  const fold = parts.streaming && plan.terms.features.streaming ? plan.wire.fold() : null;
  let head: ReplyHead = { status: null, headers: null };
  let usage: TokenUsage = { inputTokens: null, outputTokens: null };
  const end = async (checked: CheckedAnswer | null) => {
    const latencyMs = parts.timing.clock() - startedAt;
    parts.recordUsage(usageOfCall(plan, turn, { head, usage, checked, latencyMs, now: parts.now() }));
    const counted = parts.circuits.report(target, checked?.report ?? { kind: 'nothing' }, turn.asTrial);
    if (turn.asTrial || checked?.kind !== 'fits') await counted;
  };
  try {
    const answer = await send(plan, fold, turn.timeoutMs).catch((error: unknown) => {
      if (error instanceof CallFailed) return error;
      throw error;
    });
    head = { status: answer.status, headers: answer instanceof CallFailed ? null : answer.headers };
    // A stream that was cut has no body, but it may have reported counts before.
    const body = answer instanceof CallFailed ? undefined : answer.body;
    usage = plan.wire.usageOf(body ?? fold?.counted());
    plan.budget.usage = sumOfUsage(plan.budget.usage, usage);
    const checked = checkCall(answer, plan, parts.now());
    await end(checked);
    if (!(answer instanceof CallFailed) && rejectsForm(answer, plan)) return { kind: 'otherForm' };
    return resultOf(checked);
  } catch (error) {
    if (signal.aborted && error === signal.reason) await end(null);
    throw error;
  }
}

function resultOf(checked: CheckedAnswer): CallResult {
  switch (checked.kind) {
    case 'fits':
      return { kind: 'fits', json: checked.json };
    case 'unfit':
      return { kind: 'unfit', repair: { answer: checked.text, faults: checked.faults }, json: checked.json };
    case 'failed':
      throw checked.failed;
  }
}

function sumOfUsage(a: TokenUsage, b: TokenUsage): TokenUsage {
  return {
    inputTokens: sumOf(a.inputTokens, b.inputTokens),
    outputTokens: sumOf(a.outputTokens, b.outputTokens),
  };
}

function send(plan: CallPlan, fold: StreamFold | null, timeoutMs: number): Promise<HttpAnswer> {
  const { target, wire, form, task, repair, signal, dispatcher } = plan;
  const prompt = promptOf(task, { withSchema: form !== 'schema', repair });
  const request = wire.request({ prompt, schema: task.schema, form, stream: fold !== null }, target);
  return callProvider({ request, fold, timeoutMs, signal, dispatcher });
}

function checkCall(
  answer: HttpAnswer | CallFailed,
  { target, wire, task, check }: CallPlan,
  now: number,
): CheckedAnswer {
  if (answer instanceof CallFailed) return failureWithoutAnswer(answer, target.provider);
  return checkAnswer(answer, { provider: target.provider, key: target.key, wire, schema: task.schema, check, now });
}

/** Returns true if a self-hosted server refuses the form of answer. Such servers name it in the body of a 400 or 422. */
function rejectsForm({ status, body }: HttpAnswer, { target, form }: CallPlan): boolean {
  if (target.provider !== 'local' || form === 'prompt' || (status !== 400 && status !== 422)) return false;
  return /response_format|json_schema|json_object|schema|grammar|structured/i.test(JSON.stringify(body) ?? '');
}

/** The head of an answer; both fields are null if no answer arrived. */
interface ReplyHead {
  status: number | null;
  headers: Headers | null;
}

/** How a call ended. `checked` is null if the caller cancelled it; `now` is in Unix ms. */
interface CallEnd {
  head: ReplyHead;
  usage: TokenUsage;
  checked: CheckedAnswer | null;
  latencyMs: number;
  now: number;
}

/** Returns the usage event of a provider call. */
function usageOfCall(
  { target, task, wire, terms }: Pick<CallPlan, 'target' | 'task' | 'wire' | 'terms'>,
  turn: AdmittedTurn,
  { head, usage, checked, latencyMs, now }: CallEnd,
): UsageEvent {
  return {
    ...terms.usageEvent,
    ...usage,
    provider: target.provider,
    baseUrl: target.baseUrl,
    model: target.model,
    promptVersion: task.promptVersion,
    attempt: turn.attempt,
    retryWaitMs: turn.retryWaitMs,
    circuit: turn.asTrial ? 'half-open' : 'closed',
    latencyMs: Math.round(latencyMs),
    httpStatus: head.status,
    outcome: checked === null ? 'cancelled' : checked.kind === 'fits' ? 'success' : 'failure',
    errorCode: checked === null ? null : codeOf(checked),
    providerRequestId: requestIdOf(head, { wire, target }),
    createdAt: new Date(now),
  };
}

function codeOf(checked: CheckedAnswer): UsageEvent['errorCode'] {
  if (checked.kind === 'failed') return checked.failed.failure.code;
  return checked.kind === 'fits' ? null : 'AI_PROVIDER_INVALID_RESPONSE';
}

/** Returns the provider's request id, or null if it is missing, not a plain word or contains the key. */
function requestIdOf({ headers }: ReplyHead, { wire, target }: Pick<CallPlan, 'wire' | 'target'>): string | null {
  const id = wire.requestIdHeader === null ? null : (headers?.get(wire.requestIdHeader) ?? null);
  if (id === null || !/^[\x21-\x7e]{1,200}$/.test(id)) return null;
  return target.key !== null && id.includes(target.key) ? null : id;
}

/**
 * Runs `work` when a slot is free. A caller stops waiting for a slot on abort or after `waitMs`; `work` then never starts.
 * Once `work` has started, it runs to its end. Only an abort then releases the caller early.
 * @throws the error of `work`, the signal's reason, or the result of `late`
 */
export async function runInSlot<T>(
  slots: LimitFunction,
  { signal, waitMs, late }: { signal: AbortSignal; waitMs: number; late(): Error },
  work: () => Promise<T>,
): Promise<T> {
  signal.throwIfAborted();
  const gone = Promise.withResolvers<never>();
  let isGone = false;
  const go = (reason: unknown) => {
    isGone = true;
    gone.reject(reason);
  };
  const abort = () => go(signal.reason);
  const timer = setTimeout(() => go(late()), Math.max(0, waitMs));
  signal.addEventListener('abort', abort, { once: true });
  const run = slots(() => {
    clearTimeout(timer);
    return isGone ? gone.promise : work();
  });
  try {
    return await Promise.race([run, gone.promise]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', abort);
    run.catch(() => undefined);
  }
}
