import type { LimitFunction } from 'p-limit';
import type { Dispatcher } from 'undici';
import { type AskedFor, type ModelTask, ProviderFailure, type TokenUsage } from '../../classifier/model-task.ts';
import { promptOf, type Repair } from '../../classifier/prompt.ts';
import type { ProviderName } from '../../classifier/provider-names.ts';
import type { Target } from '../../classifier/target.ts';
import type { UsageEvent } from '../../classifier/usage-event.ts';
import type { Now } from '../../kernel/clock.ts';
import type { FaultDetail } from '../../kernel/errors.ts';
import { CallFailed } from './call-failed.ts';
import { type Budget, LONGEST_WAIT_MS, type Patience } from './call-with-retries.ts';
import type { Circuits } from './circuits.ts';
import { callProvider, type HttpAnswer } from './http-call.ts';
import { inTurn } from './in-turn.ts';
import { type Judged, judgeAnswer, judgeNoAnswer } from './judge-answer.ts';
import type { AnswerForm, Wire } from './wires/wire.ts';

/** A target that is asked over HTTP. */
export type HttpTarget = Target & { provider: Exclude<ProviderName, 'mock'>; baseUrl: string };

/** What every attempt works with. */
export interface AttemptParts {
  circuits: Circuits;
  patience: Patience;
  now: Now;
  timeoutMs: number;
  streaming: boolean;
  recordUsage(event: UsageEvent): void;
}

/** What is to be had from one attempt. */
export interface Attempt {
  target: HttpTarget;
  wire: Wire;
  form: AnswerForm;
  dispatcher: Dispatcher;
  /** Calls to this provider that the process has out at once. */
  slots: LimitFunction;
  task: ModelTask;
  about: AskedFor;
  check(value: unknown): FaultDetail[];
  repair: Repair | null;
  budget: Budget;
  signal: AbortSignal;
}

export type Attempted =
  | { kind: 'fits'; json: unknown; usage: TokenUsage }
  | { kind: 'unfit'; repair: Repair }
  /** The server knows no answers of this form. */
  | { kind: 'otherForm' };

/**
 * Asks once, when the circuit and a slot let it, and leaves a usage event. A pause that the provider has asked for is
 * waited out where it fits into the budget, as a slot is waited for.
 * @throws AttemptFailed; ProviderFailure of nature `open`, when nobody was asked; the signal's reason
 */
export async function makeAttempt(
  parts: AttemptParts,
  asked: Attempt,
  made: { attempt: number; retryWaitMs: number },
): Promise<Attempted> {
  const { budget, signal, slots } = asked;
  for (;;) {
    const waitMs = budget.deadlineAt - parts.patience.clock();
    const late = () => outOfTime(asked.target);
    const step = await inTurn(slots, { signal, waitMs, late }, () => admitAndCall(parts, asked, made));
    if (step.kind !== 'paused') return step;
    const { retryAfterMs } = step;
    const fits = retryAfterMs <= LONGEST_WAIT_MS && parts.patience.clock() + retryAfterMs < budget.deadlineAt;
    if (!fits) {
      const message = `${asked.target.provider} has asked for a pause`;
      throw new ProviderFailure('AI_PROVIDER_THROTTLED', 'open', { message, retryAfterMs });
    }
    await parts.patience.sleep(retryAfterMs, signal);
  }
}

function outOfTime({ provider }: Target): ProviderFailure {
  return new ProviderFailure('AI_PROVIDER_TIMEOUT', 'passing', {
    message: `there was no time left to ask ${provider}`,
  });
}

async function admitAndCall(
  parts: AttemptParts,
  asked: Attempt,
  made: { attempt: number; retryWaitMs: number },
): Promise<Attempted | { kind: 'paused'; retryAfterMs: number }> {
  const { target, budget, signal } = asked;
  signal.throwIfAborted();
  const leftMs = budget.deadlineAt - parts.patience.clock();
  if (leftMs <= 0) throw outOfTime(target);
  const admission = await parts.circuits.admit(target);
  if (admission.may === 'not') {
    const { why, retryAfterMs } = admission;
    if (why === 'throttled') return { kind: 'paused', retryAfterMs };
    const message = `${target.provider} is left alone after too many failures`;
    throw new ProviderFailure('AI_PROVIDER_CIRCUIT_OPEN', 'open', { message, retryAfterMs });
  }
  const asTrial = admission.may === 'try';
  return call(parts, asked, { ...made, asTrial, timeoutMs: Math.min(parts.timeoutMs, Math.ceil(leftMs)) });
}

async function call(
  parts: AttemptParts,
  asked: Attempt,
  made: { attempt: number; retryWaitMs: number; asTrial: boolean; timeoutMs: number },
): Promise<Attempted> {
  const { target, task, signal } = asked;
  const startedAt = parts.patience.clock();
  const record = (answer: Told, judged: Judged | null) =>
    parts.recordUsage({
      ...asked.about,
      ...(judged?.usage ?? { inputTokens: null, outputTokens: null }),
      provider: target.provider,
      baseUrl: target.origin,
      model: target.model,
      promptVersion: task.promptVersion,
      attempt: made.attempt,
      retryWaitMs: made.retryWaitMs,
      circuit: made.asTrial ? 'half-open' : 'closed',
      latencyMs: Math.round(parts.patience.clock() - startedAt),
      httpStatus: answer.status,
      outcome: judged === null ? 'cancelled' : judged.kind === 'fits' ? 'success' : 'failure',
      errorCode: judged === null ? null : codeOf(judged),
      providerRequestId: requestIdOf(answer, asked),
      createdAt: new Date(parts.now()),
    });

  let told: Told = { status: null, headers: null };
  try {
    const answer = await send(parts, asked, made.timeoutMs).catch((error: unknown) => {
      if (error instanceof CallFailed) return error;
      throw error;
    });
    told = { status: answer.status, headers: answer instanceof CallFailed ? null : answer.headers };
    const judged = judge(answer, asked, parts.now());
    await parts.circuits.end(target, judged.end, made.asTrial);
    record(told, judged);
    if (!(answer instanceof CallFailed) && knowsNoSuchForm(answer, asked)) return { kind: 'otherForm' };
    switch (judged.kind) {
      case 'fits':
        return { kind: 'fits', json: judged.json, usage: judged.usage };
      case 'unfit':
        return { kind: 'unfit', repair: { answer: judged.text, faults: judged.faults } };
      case 'failed':
        throw judged.failed;
    }
  } catch (error) {
    if (signal.aborted && error === signal.reason) {
      await parts.circuits.end(target, { kind: 'nothing' }, made.asTrial);
      record(told, null);
    }
    throw error;
  }
}

interface Told {
  status: number | null;
  headers: Headers | null;
}

function send(parts: AttemptParts, asked: Attempt, timeoutMs: number): Promise<HttpAnswer> {
  const { target, wire, form, task, repair, signal, dispatcher } = asked;
  const prompt = promptOf(task, { withSchema: form !== 'schema', repair });
  const request = wire.request({ prompt, schema: task.schema, form, stream: parts.streaming }, target);
  return callProvider({ request, fold: parts.streaming ? wire.fold() : null, timeoutMs, signal, dispatcher });
}

function judge(answer: HttpAnswer | CallFailed, { target, wire, task, check }: Attempt, now: number): Judged {
  if (answer instanceof CallFailed) return judgeNoAnswer(answer, target.provider);
  return judgeAnswer(answer, { provider: target.provider, key: target.key, wire, schema: task.schema, check, now });
}

function codeOf(judged: Judged): UsageEvent['errorCode'] {
  if (judged.kind === 'failed') return judged.failed.failure.code;
  return judged.kind === 'fits' ? null : 'AI_PROVIDER_INVALID_RESPONSE';
}

/** Servers that one runs oneself differ in what they know: some refuse a schema, some any form, with a 400 that names it. */
function knowsNoSuchForm({ status, body }: HttpAnswer, { target, form }: Attempt): boolean {
  if (target.provider !== 'local' || form === 'prompt' || (status !== 400 && status !== 422)) return false;
  return /response_format|json_schema|json_object|schema|grammar|structured/i.test(JSON.stringify(body) ?? '');
}

function requestIdOf({ headers }: Told, { wire, target }: Attempt): string | null {
  const id = wire.requestIdHeader === null ? null : (headers?.get(wire.requestIdHeader) ?? null);
  if (id === null || !/^[\x21-\x7e]{1,200}$/.test(id)) return null;
  return target.key !== null && id.includes(target.key) ? null : id;
}
