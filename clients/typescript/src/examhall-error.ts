import type { FaultDetail, ServerCode } from './generated.ts';

/**
 * Code of a failure: one of the server's, or one of this client's. `NO_REPLY`: no whole reply arrived in time. `FOREIGN_REPLY`: a reply that
 * examhall did not write, such as the page of a proxy.
 */
export type ErrorCode = ServerCode | 'NO_REPLY' | 'FOREIGN_REPLY';

interface Facts {
  readonly operation: string;
  readonly code: ErrorCode;
  readonly message: string;
  readonly status?: number;
  readonly requestId?: string | null;
  readonly details?: readonly FaultDetail[];
  readonly data?: unknown;
  readonly retryAfterSeconds?: number | null;
  readonly cause?: unknown;
}

/** A call that failed. Branch on `code`; `message` is for people. */
export class ExamhallError extends Error {
  override readonly name = 'ExamhallError';
  readonly operation: string;
  readonly code: ErrorCode;
  /** HTTP status; 0 without a reply. */
  readonly status: number;
  /** Finds the request in the server's log. Null without a reply. */
  readonly requestId: string | null;
  /** Every fault of the request's shape. */
  readonly details: readonly FaultDetail[];
  /** Payload of a code that has one, such as the stored answer of `ANSWER_VERSION_CONFLICT`. */
  readonly data: unknown;
  /** Wait that the server requires; null if the reply has no `Retry-After`. */
  readonly retryAfterSeconds: number | null;
  /** Effect of the call's last request: none, unknown, or a failure that every repeat would meet too. */
  readonly kind: FailureKind;

  constructor(facts: Facts) {
    super(`${facts.operation}: ${facts.code}: ${facts.message}`, { cause: facts.cause });
    this.operation = facts.operation;
    this.code = facts.code;
    this.status = facts.status ?? 0;
    this.requestId = facts.requestId ?? null;
    this.details = facts.details ?? [];
    this.data = facts.data;
    this.retryAfterSeconds = facts.retryAfterSeconds ?? null;
    this.kind = failureKind(this);
  }
}

/** Returns the error of a reply that is no success. `text` is its body. */
export function errorOf(operation: string, response: Response, text: string): ExamhallError {
  const { status, headers } = response;
  const retryAfterSeconds = secondsOf(headers.get('retry-after'), headers.get('date'));
  const requestId = headers.get('x-request-id');
  const body = failureOf(text);
  if (body === null) {
    const message = `status ${status} without a failure of examhall`;
    return new ExamhallError({ operation, code: 'FOREIGN_REPLY', message, status, requestId, retryAfterSeconds });
  }
  return new ExamhallError({ requestId, ...body, operation, status, retryAfterSeconds });
}

type Failure = Pick<Facts, 'code' | 'message' | 'data'> & { requestId?: string; details?: readonly FaultDetail[] };

/** Returns a failure of examhall, or null for any other text. A code that is newer than this client is kept. */
function failureOf(text: string): Failure | null {
  const body = parsed(text) as (Partial<Failure> & { success?: unknown }) | null | undefined;
  if (typeof body !== 'object' || body === null || body.success !== false) return null;
  const { code, message, requestId, details, data } = body;
  if (typeof code !== 'string' || typeof message !== 'string') return null;
  return {
    code,
    message,
    data,
    ...(typeof requestId === 'string' && { requestId }),
    ...(Array.isArray(details) && { details }),
  };
}

/** Returns the value of a JSON text, or undefined for any other text. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Returns the seconds of `Retry-After`: a number, or a date that counts from the reply's own date. Null without a valid one. */
function secondsOf(value: string | null, date: string | null): number | null {
  if (value === null) return null;
  if (/^\d+$/.test(value)) return Number(value);
  const wait = Date.parse(value) - (date === null ? Date.now() : Date.parse(date));
  return Number.isNaN(wait) ? null : Math.max(0, Math.ceil(wait / 1_000));
}

/**
 * Effect of a request that failed.
 * - `refused`: the request has had no effect, and a later one may succeed.
 * - `unknown`: the request may have taken effect, and a later one may succeed.
 * - `final`: the same request would fail again.
 */
export type FailureKind = 'refused' | 'unknown' | 'final';

interface FailedRequest {
  readonly code: string;
  readonly status: number;
  readonly retryAfterSeconds: number | null;
}

/**
 * Returns the kind of a failure, which `ExamhallError` shows. Calls, the wait for a result and streams decide by it alone.
 *
 * A missing reply, `INTERNAL` and `UNAVAILABLE` leave open whether the request was served, since a lost commit answers so too. From a proxy,
 * 408 and every 5xx do. `AUTH_THROTTLED` leaves open whether a wrong password was counted. Any other 429 or 503 of examhall without `Retry-After` names a lasting cause, such as a missing setting.
 */
export function failureKind({ code, status, retryAfterSeconds }: FailedRequest): FailureKind {
  if (code === 'NO_REPLY' || code === 'INTERNAL' || code === 'UNAVAILABLE' || code === 'AUTH_THROTTLED')
    return 'unknown';
  if (code === 'FOREIGN_REPLY') {
    if (status === 408 || status >= 500) return 'unknown';
    return status === 429 ? 'refused' : 'final';
  }
  if (status === 408) return 'refused';
  return (status === 429 || status === 503) && retryAfterSeconds !== null ? 'refused' : 'final';
}
