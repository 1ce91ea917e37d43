import type { LimitFunction } from 'p-limit';
import type { Dispatcher } from 'undici';
import type { AnswerForm, Wire } from '#infra/models/wires/wire.ts';
import type { ProviderName } from '#shared/classifier/provider/names.ts';
import type { Target } from '#shared/classifier/provider/target.ts';
import type { UsageEvent } from '#shared/classifier/provider/usage-event.ts';
import { promptOf, type Repair } from '#shared/classifier/tasks/prompt.ts';
import { type AskedFor, type ModelTask, ProviderFailure, type TokenUsage } from '#shared/classifier/tasks/task.ts';
import type { FaultDetail } from '#shared/kernel/errors.ts';
import type { Now } from '#shared/kernel/time.ts';
import type { Circuits } from './circuits.ts';
import { CallFailed, callProvider, type HttpAnswer } from './http-call.ts';
import { type Judged, judgeAnswer, judgeNoAnswer } from './judge-answer.ts';
import { type Budget, LONGEST_WAIT_MS, type Patience, type Turn } from './retries.ts';

/** A target that is called over HTTP. */
export type HttpTarget = Target & { provider: Exclude<ProviderName, 'mock'>; baseUrl: string };

/** Settings and services that every provider call uses. */
export interface TryParts {
  circuits: Circuits;
  patience: Patience;
  now: Now;
  timeoutMs: number;
  streaming: boolean;
  recordUsage(event: UsageEvent): void;
}

/** A task, the provider to call for it and the form of the answer. */
export interface Try {
  target: HttpTarget;
  wire: Wire;
  form: AnswerForm;
  dispatcher: Dispatcher;
  /** Limits the concurrent calls of this process to this provider. */
  slots: LimitFunction;
  task: ModelTask;
  about: AskedFor;
  check(value: unknown): FaultDetail[];
  repair: Repair | null;
  budget: Budget;
  signal: AbortSignal;
}

type Tried =
  | { kind: 'fits'; json: unknown; usage: TokenUsage }
  | { kind: 'unfit'; repair: Repair }
  /** The server does not support this form of answer. */
  | { kind: 'otherForm' };

/** An admitted call. `asTrial`: it tests an open circuit. */
interface TryTurn extends Turn {
  asTrial: boolean;
  timeoutMs: number;
}

/**
 * Makes one provider call once the circuit and a slot allow it, and records a usage event. If the provider has requested a
 * pause that fits into the budget, the call waits for its end.
 * @throws TryFailed; ProviderFailure if no call was made (`open`, or `passing` if time ran out); the signal's reason
 */
export async function tryProvider(parts: TryParts, asked: Try, turn: Turn): Promise<Tried> {
  const { budget, signal, slots } = asked;
  for (;;) {
    const waitMs = budget.deadlineAt - parts.patience.clock();
    const late = () => outOfTime(asked.target);
    const step = await inTurn(slots, { signal, waitMs, late }, () => admitAndCall(parts, asked, turn));
    if (step.kind !== 'paused') return step;
    const { retryAfterMs } = step;
    const fits = retryAfterMs <= LONGEST_WAIT_MS && parts.patience.clock() + retryAfterMs < budget.deadlineAt;
    if (!fits) {
      const message = `${asked.target.provider} is rate-limiting requests`;
      throw new ProviderFailure('AI_PROVIDER_THROTTLED', 'open', { message, retryAfterMs });
    }
    await parts.patience.sleep(retryAfterMs, signal);
  }
}

function outOfTime({ provider }: Target): ProviderFailure {
  return new ProviderFailure('AI_PROVIDER_TIMEOUT', 'passing', {
    message: `no time left to call ${provider}`,
  });
}

async function admitAndCall(
  parts: TryParts,
  asked: Try,
  turn: Turn,
): Promise<Tried | { kind: 'paused'; retryAfterMs: number }> {
  const { target, budget, signal } = asked;
  signal.throwIfAborted();
  const leftMs = budget.deadlineAt - parts.patience.clock();
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
      return call(parts, asked, { ...turn, asTrial, timeoutMs: Math.min(parts.timeoutMs, Math.ceil(leftMs)) });
    }
  }
}

/** Makes the call. Its result updates the circuit first, is then recorded as a usage event and finally returned. */
async function call(parts: TryParts, asked: Try, turn: TryTurn): Promise<Tried> {
  const { target, signal } = asked;
  const startedAt = parts.patience.clock();
  let told: Told = { status: null, headers: null };
  const end = async (judged: Judged | null) => {
    await parts.circuits.end(target, judged?.end ?? { kind: 'nothing' }, turn.asTrial);
    const latencyMs = parts.patience.clock() - startedAt;
    parts.recordUsage(usageOfTry(asked, turn, { told, judged, latencyMs, now: parts.now() }));
  };
  try {
    const answer = await send(parts, asked, turn.timeoutMs).catch((error: unknown) => {
      if (error instanceof CallFailed) return error;
      throw error;
    });
    told = { status: answer.status, headers: answer instanceof CallFailed ? null : answer.headers };
    const judged = judge(answer, asked, parts.now());
    await end(judged);
    if (!(answer instanceof CallFailed) && knowsNoSuchForm(answer, asked)) return { kind: 'otherForm' };
    return triedOf(judged);
  } catch (error) {
    if (signal.aborted && error === signal.reason) await end(null);
    throw error;
  }
}

function triedOf(judged: Judged): Tried {
  switch (judged.kind) {
    case 'fits':
      return { kind: 'fits', json: judged.json, usage: judged.usage };
    case 'unfit':
      return { kind: 'unfit', repair: { answer: judged.text, faults: judged.faults } };
    case 'failed':
      throw judged.failed;
  }
}

function send(parts: TryParts, asked: Try, timeoutMs: number): Promise<HttpAnswer> {
  const { target, wire, form, task, repair, signal, dispatcher } = asked;
  const prompt = promptOf(task, { withSchema: form !== 'schema', repair });
  const request = wire.request({ prompt, schema: task.schema, form, stream: parts.streaming }, target);
  return callProvider({ request, fold: parts.streaming ? wire.fold() : null, timeoutMs, signal, dispatcher });
}

function judge(answer: HttpAnswer | CallFailed, { target, wire, task, check }: Try, now: number): Judged {
  if (answer instanceof CallFailed) return judgeNoAnswer(answer, target.provider);
  return judgeAnswer(answer, { provider: target.provider, key: target.key, wire, schema: task.schema, check, now });
}

/** Returns true if a self-hosted server refuses the form of answer. Such servers name it in the body of a 400 or 422. */
function knowsNoSuchForm({ status, body }: HttpAnswer, { target, form }: Try): boolean {
  if (target.provider !== 'local' || form === 'prompt' || (status !== 400 && status !== 422)) return false;
  return /response_format|json_schema|json_object|schema|grammar|structured/i.test(JSON.stringify(body) ?? '');
}

/** The head of an answer; both fields are null if no answer arrived. */
interface Told {
  status: number | null;
  headers: Headers | null;
}

/** Returns the usage event of a provider call. `judged` is null if the caller cancelled it; `now` is in Unix ms. */
function usageOfTry(
  { target, task, wire, about }: Pick<Try, 'target' | 'task' | 'wire' | 'about'>,
  turn: TryTurn,
  { told, judged, latencyMs, now }: { told: Told; judged: Judged | null; latencyMs: number; now: number },
): UsageEvent {
  return {
    ...about,
    ...(judged?.usage ?? { inputTokens: null, outputTokens: null }),
    provider: target.provider,
    baseUrl: target.baseUrl,
    model: target.model,
    promptVersion: task.promptVersion,
    attempt: turn.attempt,
    retryWaitMs: turn.retryWaitMs,
    circuit: turn.asTrial ? 'half-open' : 'closed',
    latencyMs: Math.round(latencyMs),
    httpStatus: told.status,
    outcome: judged === null ? 'cancelled' : judged.kind === 'fits' ? 'success' : 'failure',
    errorCode: judged === null ? null : codeOf(judged),
    providerRequestId: requestIdOf(told, { wire, target }),
    createdAt: new Date(now),
  };
}

function codeOf(judged: Judged): UsageEvent['errorCode'] {
  if (judged.kind === 'failed') return judged.failed.failure.code;
  return judged.kind === 'fits' ? null : 'AI_PROVIDER_INVALID_RESPONSE';
}

/** Returns the provider's request id, or null if it is missing, not a plain word or contains the key. */
function requestIdOf({ headers }: Told, { wire, target }: Pick<Try, 'wire' | 'target'>): string | null {
  const id = wire.requestIdHeader === null ? null : (headers?.get(wire.requestIdHeader) ?? null);
  if (id === null || !/^[\x21-\x7e]{1,200}$/.test(id)) return null;
  return target.key !== null && id.includes(target.key) ? null : id;
}

/**
 * Runs `work` when a slot is free. A caller stops waiting for a slot on abort or after `waitMs`; `work` then never starts.
 * Once `work` has started, it runs to its end. Only an abort then releases the caller early.
 * @throws the error of `work`, the signal's reason, or the result of `late`
 */
export async function inTurn<T>(
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
  const turn = slots(() => {
    clearTimeout(timer);
    return isGone ? gone.promise : work();
  });
  try {
    return await Promise.race([turn, gone.promise]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', abort);
    turn.catch(() => undefined);
  }
}
