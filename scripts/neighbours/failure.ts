import { AMOUNT, closed, type Fault, faultsOf, type Reply, refusal, type Schema, TEXT } from './stand-in.ts';

/** A fault that a stand-in plays until it is reset. */
export interface Failure {
  /** Answers with this status in place of the real reply; the call takes no effect. */
  answer?: number;
  /** The same with a status from 400 to 499. */
  refuse?: number;
  /** Closes the connection without a reply; the call takes no effect. */
  drop?: true;
  /** The call takes effect, and its reply is lost: the caller gets `answer`, otherwise a closed connection. */
  lose?: true;
  /** Waits before the call takes effect; may stand beside the others. */
  delayMs?: number;
  /** Seconds of the `Retry-After` of `answer` or `refuse`. */
  retryAfter?: number;
  /** Body of `answer` or `refuse`, in place of the usual refusal. */
  body?: unknown;
  /** Ends after this number of failed calls; default: it does not end. */
  times?: number;
  /** Fails each n-th call only; default: every call. */
  every?: number;
  /** Fails calls only whose path contains this text. */
  only?: string;
}

const MAX_DELAY_MS = 600_000;
const POSITIVE: Schema = { type: 'integer', minimum: 1 };
const SHAPES: Readonly<Record<keyof Failure, Schema>> = {
  answer: { type: 'integer', minimum: 200, maximum: 599 },
  refuse: { type: 'integer', minimum: 400, maximum: 499 },
  drop: { const: true },
  lose: { const: true },
  delayMs: { ...AMOUNT, maximum: MAX_DELAY_MS },
  retryAfter: { ...AMOUNT, maximum: 86_400 },
  body: {},
  times: POSITIVE,
  every: POSITIVE,
  only: TEXT,
};
const SHAPE = closed(SHAPES, Object.keys(SHAPES));

/** Reads a failure of the control interface. */
export function readFailure(value: unknown): { failure: Failure } | { faults: Fault[] } {
  const faults = faultsOf(SHAPE, value);
  if (faults.length > 0) return { faults };
  const failure = value as Failure;
  const { answer, refuse, drop, lose, delayMs, retryAfter, body } = failure;
  const replies = [answer, refuse, drop].filter((reply) => reply !== undefined);
  const hasReply = answer !== undefined || refuse !== undefined;
  if (replies.length > 1) faults.push({ path: '', message: 'has more than one of answer, refuse and drop' });
  if (replies.length === 0 && lose === undefined && delayMs === undefined)
    faults.push({ path: '', message: 'must have answer, refuse, drop, lose or delayMs' });
  if (!hasReply && (retryAfter !== undefined || body !== undefined))
    faults.push({ path: '', message: 'has retryAfter or body without answer or refuse' });
  return faults.length > 0 ? { faults } : { failure };
}

/** How one call of a stand-in goes. */
export interface Effect {
  delayMs: number;
  /** False: the call takes no effect. */
  performs: boolean;
  /** `real`: the reply of the stand-in itself. `none`: the connection is closed. */
  reply: Reply | 'real' | 'none';
}

const UNDISTURBED: Effect = { delayMs: 0, performs: true, reply: 'real' };

/** The failure of one stand-in. */
export interface FailureSwitch {
  /** Begins a failure, or ends the present one (null). */
  set(failure: Failure | null): void;
  /** Returns the present failure with the number of calls that it has failed; null without one. */
  shown(): (Failure & { failed: number }) | null;
  /** Returns how the next call goes, and counts it. */
  next(path: string): Effect;
}

/** Returns a switch without a failure. */
export function failureSwitch(): FailureSwitch {
  let current: Failure | null = null;
  let [met, failed] = [0, 0];
  return {
    set(failure) {
      [current, met, failed] = [failure, 0, 0];
    },
    shown: () => (current === null ? null : { ...current, failed }),
    next(path) {
      if (current === null || !path.includes(current.only ?? '')) return UNDISTURBED;
      met += 1;
      if (met % (current.every ?? 1) !== 0) return UNDISTURBED;
      failed += 1;
      const effect = effectOf(current);
      if (failed === current.times) current = null;
      return effect;
    },
  };
}

function effectOf({ answer, refuse, drop, lose, delayMs = 0, retryAfter, body }: Failure): Effect {
  const status = answer ?? refuse;
  const performs = lose === true;
  if (status === undefined) {
    const replies = drop === undefined && lose === undefined;
    return { delayMs, performs: performs || replies, reply: replies ? 'real' : 'none' };
  }
  const reply = body === undefined ? refusal(status, 'SCRIPTED_FAILURE', 'this failure is scripted') : { status, body };
  const headers = retryAfter === undefined ? {} : { headers: { 'retry-after': String(retryAfter) } };
  return { delayMs, performs, reply: { ...reply, ...headers } };
}
