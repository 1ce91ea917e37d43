/** The facts about one error code. The reply carries status and message; OpenAPI shows the cause; docs/errors.md shows all. */
export interface ErrorFacts {
  status: number;
  /** Default message of the reply. A `Rejection` may replace it. */
  message: string;
  /** Why a caller gets this code. Whole sentences without links, because OpenAPI shows them too. */
  cause: string;
  /** The client's next step, in whole sentences. */
  remedy: string;
  retry: Retry;
}

/**
 * Answer to "may the client send the same request again?". It also decides which replies carry `Retry-After`:
 *
 * - `no`: the same request gets the same reply until its cause is removed. No `Retry-After`.
 * - `yes`: it may succeed. No `Retry-After`, so the client chooses its own growing pause.
 * - `after`: it may succeed after the delay of `Retry-After`, which every reply carries.
 * - `after-if-sent`: like `after` if the reply carries `Retry-After`, otherwise like `yes`.
 */
export type Retry = 'no' | 'yes' | 'after' | 'after-if-sent';

export type ErrorCatalogue = Readonly<Record<string, ErrorFacts>>;
