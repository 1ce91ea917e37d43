import type { FailureNature, ProviderFailure } from '#shared/classifier/tasks/task.ts';
import { membersOf } from '#shared/kernel/json.ts';
import { DAY } from '#shared/kernel/time.ts';

/** Meaning of a provider's reply that is an error. */
interface ProviderRefusal {
  code: ProviderFailure['code'];
  nature: Exclude<FailureNature, 'open'>;
  /** true = the same call may be repeated. */
  retry: boolean;
  /** The provider's error code, if it is a plain identifier. Never message text, which may quote the request. */
  word: string | null;
}

const PERMANENT_QUOTA =
  /^(insufficient_quota|credit_balance_exhausted|billing_hard_limit_reached|billing_not_active|billing_error|enforced_spend_limit_reached|\w*_(usage|spend)_limit_exceeded)$/;
/** Anthropic and OpenAI report an exhausted budget with a plain 400 and these words. */
const QUOTA_IN_WORDS = /credit balance is too low|spend(ing)? limit/i;
/** Status of each error type, for an error inside a reply with status 200. */
const STATUS_OF_TYPE: ReadonlyMap<string, number> = new Map(
  Object.entries({
    invalid_request_error: 400,
    authentication_error: 401,
    billing_error: 402,
    permission_error: 403,
    not_found_error: 404,
    request_too_large: 413,
    rate_limit_error: 429,
    rate_limit_exceeded: 429,
    insufficient_quota: 429,
    api_error: 500,
    server_error: 500,
    timeout_error: 504,
    overloaded_error: 529,
  }),
);

/**
 * Classifies a status other than 2xx, or an error inside a 200. `shouldRetry` is the provider's x-should-retry header. It overrides
 * our decision whether to call again, except for an exhausted quota, and has no effect on code and nature.
 */
export function refusalOf(status: number, body: unknown, shouldRetry: string | null): ProviderRefusal {
  const fields = errorFieldsOf(body);
  const meaning = meaningOf(status, fields);
  const isEmpty = meaning.code === 'AI_PROVIDER_QUOTA';
  const retry = !isEmpty && (shouldRetry === 'true' || (meaning.retry && shouldRetry !== 'false'));
  return { ...meaning, retry, word: fields.words.find((word) => /^[A-Za-z0-9_.-]{1,64}$/.test(word)) ?? null };
}

/**
 * Returns the error inside a 200 or inside an event of a stream: of the whole or of its first choice; undefined if there is no error. Some servers
 * send an empty `error` with every answer.
 */
export function errorIn(body: unknown): unknown {
  const { error, type, choices } = membersOf(Array.isArray(body) ? body[0] : body);
  if (isError(error)) return error;
  if (isWord(type, 'error')) return error ?? {};
  const choice = firstOf(choices);
  if (isError(choice.error)) return choice.error;
  return isWord(choice.finish_reason, 'error') ? {} : undefined;
}

/** Returns the first of a reply's choices. Others, which no request of ours wants, have another index. */
export function firstOf(choices: unknown): Readonly<Record<string, unknown>> {
  const all = Array.isArray(choices) ? choices.map(membersOf) : [];
  return all.find(({ index = 0 }) => index === 0) ?? {};
}

function isError(error: unknown): boolean {
  if (typeof error === 'object' && error !== null) return Object.keys(error).length > 0;
  return Boolean(error);
}

function isWord(value: unknown, word: string): boolean {
  return typeof value === 'string' && value.toLowerCase() === word;
}

/** Returns the status that an error inside a 200 means, or null if it names none. */
export function statusOfError(error: unknown): number | null {
  const { numbers, words } = errorFieldsOf({ error });
  const named = numbers.find((number) => number >= 400 && number <= 599);
  return named ?? words.map((word) => STATUS_OF_TYPE.get(word)).find((status) => status !== undefined) ?? null;
}

function meaningOf(status: number, { words, message }: ErrorFields): Omit<ProviderRefusal, 'word'> {
  const isQuota = words.some((word) => PERMANENT_QUOTA.test(word)) || (status === 400 && QUOTA_IN_WORDS.test(message));
  if (status === 402 || (isQuota && status >= 400 && status < 500)) {
    return { code: 'AI_PROVIDER_QUOTA', nature: 'refused', retry: false };
  }
  // Gemini reports a wrong key this way, with a 400.
  const isKey = words.includes('API_KEY_INVALID');
  if (status === 401 || status === 403 || isKey) {
    return { code: 'AI_PROVIDER_UNAVAILABLE', nature: 'refused', retry: false };
  }
  if (status === 429) return { code: 'AI_PROVIDER_THROTTLED', nature: 'passing', retry: true };
  if (status === 408) return { code: 'AI_PROVIDER_TIMEOUT', nature: 'passing', retry: true };
  if (status >= 500) return { code: 'AI_PROVIDER_UNAVAILABLE', nature: 'passing', retry: true };
  return { code: 'AI_PROVIDER_INVALID_RESPONSE', nature: 'refused', retry: false };
}

interface ErrorFields {
  words: string[];
  numbers: number[];
  message: string;
}

/** Returns the codes and types of an error in any provider's shape, most specific first. */
function errorFieldsOf(body: unknown): ErrorFields {
  const whole = membersOf(Array.isArray(body) ? body[0] : body);
  // vLLM's older flat shape has no `error`.
  const error = 'error' in whole ? membersOf(whole.error) : whole;
  const details = Array.isArray(error.details) ? error.details.map(membersOf) : [membersOf(error.details)];
  const fields = [
    ...details.flatMap(({ error_code, reason }) => [error_code, reason]),
    error.code,
    error.type,
    error.status,
  ];
  return {
    words: fields.filter((word) => typeof word === 'string'),
    numbers: fields.filter((number) => typeof number === 'number'),
    message: typeof error.message === 'string' ? error.message : '',
  };
}

/** Headers, reduced to the method that is read here. */
interface HeaderReader {
  get(name: string): string | null;
}

/**
 * Upper bound of a requested wait (ms). A longer one must be the provider's mistake: it would suspend the provider and its waiting
 * jobs indefinitely.
 */
const MAX_REQUESTED_DELAY_MS = 1 * DAY;

/**
 * Returns the wait that a reply requests before the next call (ms, at most a day), or null if it requests none in a readable form.
 * Sources are a header in milliseconds, Retry-After in seconds or as a date, and Gemini's RetryInfo in the body. A date is compared
 * with the reply's Date header if present, because our clock (`now`, Unix ms) may differ by minutes.
 */
export function requestedDelayMs(headers: HeaderReader, body: unknown, now: number): number | null {
  const wait = readDelayMs(headers, body, now);
  return wait === null ? null : Math.min(wait, MAX_REQUESTED_DELAY_MS);
}

function readDelayMs(headers: HeaderReader, body: unknown, now: number): number | null {
  for (const name of ['retry-after-ms', 'x-ms-retry-after-ms']) {
    const wait = decimal(headers.get(name));
    if (wait !== null) return Math.ceil(wait);
  }
  const after = headers.get('retry-after');
  const seconds = decimal(after);
  if (seconds !== null) return Math.ceil(seconds * 1_000);
  const date = after === null || !/[a-z]{3}/i.test(after) ? Number.NaN : Date.parse(after);
  if (!Number.isNaN(date)) {
    const sent = Date.parse(headers.get('date') ?? '');
    return Math.max(0, date - (Number.isNaN(sent) ? now : sent));
  }
  return retryInfoMs(body);
}

function decimal(text: string | null): number | null {
  return text !== null && /^\d{1,12}(\.\d{1,9})?$/.test(text.trim()) ? Number(text) : null;
}

/** Reads `{error: {details: [{"@type": "…google.rpc.RetryInfo", retryDelay: "34.4s"}]}}`, alone or in an array. */
function retryInfoMs(body: unknown): number | null {
  const { error } = membersOf(Array.isArray(body) ? body[0] : body);
  const { details } = membersOf(error);
  for (const detail of Array.isArray(details) ? details : []) {
    const { '@type': type, retryDelay } = membersOf(detail);
    if (typeof type !== 'string' || !type.endsWith('google.rpc.RetryInfo') || typeof retryDelay !== 'string') continue;
    const wait = decimal(retryDelay.replace(/s$/, ''));
    if (wait !== null) return Math.ceil(wait * 1_000);
  }
  return null;
}
