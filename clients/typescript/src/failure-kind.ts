/**
 * Effect of a request that failed.
 * - `refused`: the request has had no effect, and a later one may succeed.
 * - `unknown`: the request may have taken effect, and a later one may succeed.
 * - `final`: the same request would fail again.
 */
export type FailureKind = 'refused' | 'unknown' | 'final';

interface Failure {
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
export function failureKind({ code, status, retryAfterSeconds }: Failure): FailureKind {
  if (code === 'NO_REPLY' || code === 'INTERNAL' || code === 'UNAVAILABLE' || code === 'AUTH_THROTTLED')
    return 'unknown';
  if (code === 'FOREIGN_REPLY') {
    if (status === 408 || status >= 500) return 'unknown';
    return status === 429 ? 'refused' : 'final';
  }
  if (status === 408) return 'refused';
  return (status === 429 || status === 503) && retryAfterSeconds !== null ? 'refused' : 'final';
}
