import type { Wire } from '#infra/models/wires/wire.ts';
import type { CallReport } from '#shared/classifier/provider/circuit.ts';
import { errorIn, refusalOf, requestedDelayMs, statusOfError } from '#shared/classifier/provider/refusal.ts';
import { readAnswer } from '#shared/classifier/tasks/read-answer.ts';
import { type FailureNature, ProviderFailure } from '#shared/classifier/tasks/task.ts';
import type { FaultDetail } from '#shared/kernel/errors.ts';
import type { CallFailed, HttpAnswer } from './http-call.ts';
import { CallAttemptFailed } from './retries.ts';

export interface CheckContext {
  provider: string;
  /** Must not appear in any message. */
  key: string | null;
  wire: Wire;
  schema: Readonly<Record<string, unknown>>;
  check(value: unknown): FaultDetail[];
  /** Unix ms. */
  now: number;
}

/** Result of one provider call. `report` goes to the circuit. */
export type CheckedAnswer = { report: CallReport } & (
  | { kind: 'fits'; json: unknown }
  | { kind: 'unfit'; text: string; json: unknown; faults: FaultDetail[] }
  | { kind: 'failed'; failed: CallAttemptFailed }
);

const NO_JSON: FaultDetail = { path: '', message: 'must be one JSON value, with each member once' };
const UNFINISHED = {
  length: 'the answer was cut at its maximum length',
  filter: 'the provider filtered the answer',
  refusal: 'the model refused to answer',
} as const;

/** Classifies an HTTP answer as valid, as repairable, or as a failure with its code. */
export function checkAnswer(answer: HttpAnswer, context: CheckContext): CheckedAnswer {
  const { wire, provider } = context;
  const isOk = answer.status >= 200 && answer.status < 300;
  if (!isOk) return failureOfRefusal(answer.status, answer, context);
  const error = errorIn(answer.body);
  if (error !== undefined) return failureOfError(error, answer, context);
  const read = answer.body === undefined ? null : wire.read(answer.body);
  if (read === null) {
    const failed = failure('AI_PROVIDER_INVALID_RESPONSE', 'passing', `${provider} returned no complete answer`);
    return { kind: 'failed', failed, report: { kind: 'failure' } };
  }
  const { finish, text } = read;
  if (finish === 'busy') {
    const failed = failure('AI_PROVIDER_UNAVAILABLE', 'passing', `${provider} broke off for want of resources`);
    return { kind: 'failed', failed, report: { kind: 'failure' } };
  }
  if (finish !== 'stop') {
    const failed = failure('AI_PROVIDER_INVALID_RESPONSE', 'refused', `${provider}: ${UNFINISHED[finish]}`);
    return { kind: 'failed', failed, report: { kind: 'success' } };
  }
  const json = readAnswer(text, context.schema);
  const faults = json === undefined ? [NO_JSON] : context.check(json);
  return {
    report: { kind: 'success' },
    ...(faults.length === 0 ? { kind: 'fits', json } : { kind: 'unfit', text, json, faults }),
  };
}

/** Maps a call without an answer to a failure with its code. */
export function failureWithoutAnswer(error: CallFailed, provider: string): CheckedAnswer {
  const of = (code: ProviderFailure['code'], nature: Nature, words: string, report: CallReport): CheckedAnswer => ({
    kind: 'failed',
    failed: failure(code, nature, `${provider} ${words}`, error),
    report,
  });
  switch (error.kind) {
    case 'timeout':
      return of('AI_PROVIDER_TIMEOUT', 'passing', 'did not answer in time', { kind: 'failure' });
    case 'network':
      return of('AI_PROVIDER_UNAVAILABLE', 'passing', 'could not be reached', { kind: 'failure' });
    case 'oversize':
      return of('AI_PROVIDER_INVALID_RESPONSE', 'refused', 'answered with more than is read', { kind: 'answer' });
    case 'address':
      return of('AI_PROVIDER_UNAVAILABLE', 'refused', 'leads to an address that is not called', { kind: 'nothing' });
    case 'request':
      return of('AI_PROVIDER_NOT_CONFIGURED', 'refused', 'cannot be called with this key', { kind: 'nothing' });
  }
}

/** Maps an error inside a 200: as the status that it names, and otherwise as an answer that is no answer. */
function failureOfError(error: unknown, { headers }: HttpAnswer, context: CheckContext): CheckedAnswer {
  const status = statusOfError(error);
  if (status !== null) return failureOfRefusal(status, { status, headers, body: { error } }, context);
  const failed = failure(
    'AI_PROVIDER_INVALID_RESPONSE',
    'passing',
    `${context.provider} ended its answer with an error`,
  );
  return { kind: 'failed', failed, report: { kind: 'failure' } };
}

type Nature = Exclude<FailureNature, 'open'>;

function failureOfRefusal(
  status: number,
  { headers, body }: HttpAnswer,
  { provider, key, now }: CheckContext,
): CheckedAnswer {
  const refusal = refusalOf(status, body, headers.get('x-should-retry'));
  const { code, nature, retry } = refusal;
  const requested = nature === 'passing' ? requestedDelayMs(headers, body, now) : null;
  // If the provider's error code contains the key or a part of it, the message omits the code.
  const isOfKey = key !== null && refusal.word !== null && (refusal.word.includes(key) || key.includes(refusal.word));
  const word = refusal.word === null || isOfKey ? '' : ` (${refusal.word})`;
  const message = `${provider} answered ${status}${word}`;
  return {
    kind: 'failed',
    failed: new CallAttemptFailed(new ProviderFailure(code, nature, { message, retryAfterMs: requested }), {
      retry,
      requestedDelayMs: requested,
    }),
    report: reportOf(status, code, requested),
  };
}

/** Maps a refusal to a result for the circuit. Only faults of the provider count as failures, not a wrong key or request. */
function reportOf(status: number, code: ProviderFailure['code'], waitMs: number | null): CallReport {
  if (code === 'AI_PROVIDER_THROTTLED') return { kind: 'throttle', waitMs };
  return { kind: status === 408 || status >= 500 ? 'failure' : 'answer' };
}

function failure(code: ProviderFailure['code'], nature: Nature, message: string, cause?: unknown): CallAttemptFailed {
  return new CallAttemptFailed(new ProviderFailure(code, nature, { message, cause }), {
    retry: nature === 'passing',
    requestedDelayMs: null,
  });
}
