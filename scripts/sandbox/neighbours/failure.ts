import { AMOUNT, closed, type Fault, faultsOf, type Reply, refusal, type Schema, TEXT } from './stand-in.ts';

/** A fault that a stand-in plays until it is reset. `MailFailure` names the members that the mail server knows. */
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

/** Steps of an SMTP session at which a failure can occur. */
const MAIL_STEPS = ['connection', 'sign-in', 'sender', 'recipient', 'text'] as const;
export type MailStep = (typeof MAIL_STEPS)[number];

/** A fault of the mail server. `answer` is a reply code from 400 to 599, and `only` a part of an address. */
export interface MailFailure extends Omit<Failure, 'refuse' | 'retryAfter' | 'body'> {
  /** Fails this step only; default: `recipient`, with `lose` the text, because the text alone has an effect. */
  at?: MailStep;
  /** Text of `answer`. */
  text?: string;
}

const POSITIVE: Schema = { type: 'integer', minimum: 1 };
const COMMON = {
  drop: { const: true },
  lose: { const: true },
  delayMs: { ...AMOUNT, maximum: 600_000 },
  times: POSITIVE,
  every: POSITIVE,
  only: TEXT,
} as const;
/** Shapes of the failures of a service and of the mail server. */
export const SERVICE_FAILURE = allOptional<Failure>({
  answer: { type: 'integer', minimum: 200, maximum: 599 },
  refuse: { type: 'integer', minimum: 400, maximum: 499 },
  retryAfter: { ...AMOUNT, maximum: 86_400 },
  body: {},
  ...COMMON,
});
export const MAIL_FAILURE = allOptional<MailFailure>({
  answer: { type: 'integer', minimum: 400, maximum: 599 },
  at: { enum: MAIL_STEPS },
  text: TEXT,
  ...COMMON,
});
const RESET = closed({ reset: { const: true } });

function allOptional<Shown>(shapes: Readonly<Record<keyof Shown, Schema>>): Schema {
  return closed({}, shapes);
}

function contradictionsIn(failure: Failure & MailFailure): Fault[] {
  const { answer, refuse, drop, lose, delayMs, retryAfter, body, at = 'text' } = failure;
  const replies = [answer, refuse, drop].filter((reply) => reply !== undefined);
  const faults: [boolean, string, string?][] = [
    [replies.length > 1, 'has more than one of answer, refuse and drop'],
    [(replies[0] ?? lose ?? delayMs) === undefined, 'must have answer, refuse, drop, lose or delayMs'],
    [!(answer ?? refuse) && (retryAfter ?? body) !== undefined, 'has retryAfter or body without answer or refuse'],
    [lose === true && at !== 'text', 'must be text beside lose', '/at'],
  ];
  return faults.flatMap(([isFault, message, path = '']) => (isFault ? [{ path, message }] : []));
}

/** How one call of a stand-in goes. */
export interface Effect {
  delayMs: number;
  /** False: the call takes no effect. */
  performs: boolean;
  /** `real`: the reply of the stand-in itself. `none`: the connection is closed. */
  reply: Reply | 'real' | 'none';
}

export const UNDISTURBED: Effect = { delayMs: 0, performs: true, reply: 'real' };

/** The failure of one stand-in. */
export type FailureSwitch = ReturnType<typeof failureSwitch<Failure>>;

/** Returns a switch without a failure, for failures of this shape. `changed` learns of each one that begins or ends. */
export function failureSwitch<Own extends Failure = Failure>(
  shape: Schema,
  changed: (failure: Own | null) => void = () => undefined,
) {
  let current: Own | null = null;
  let [met, failed] = [0, 0];

  /** Begins a failure, or ends the present one (null). */
  function set(failure: Own | null): void {
    [current, met, failed] = [failure, 0, 0];
    changed(failure);
  }

  return {
    set,
    /** Begins the failure that this JSON is, or ends the present one by `{"reset": true}`. Returns the faults of any other value. */
    read(value: unknown): Fault[] {
      const failure = faultsOf(RESET, value).length === 0 ? null : (value as Own);
      const misshapen = failure === null ? [] : faultsOf(shape, failure);
      const faults = failure === null || misshapen.length > 0 ? misshapen : contradictionsIn(failure);
      if (faults.length === 0) set(failure);
      return faults;
    },
    /** Returns the present failure with the number of calls that it has failed; null without one. */
    shown: (): (Own & { failed: number }) | null => (current === null ? null : { ...current, failed }),
    /** Returns how the next call goes, and counts it. */
    next(path: string): Effect {
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
  const performs = lose === true || (drop === undefined && status === undefined);
  if (status === undefined) return { delayMs, performs, reply: (drop ?? lose) ? 'none' : 'real' };
  const reply = body === undefined ? refusal(status, 'SCRIPTED_FAILURE', 'this failure is scripted') : { status, body };
  const headers = retryAfter === undefined ? {} : { headers: { 'retry-after': String(retryAfter) } };
  return { delayMs, performs, reply: { ...reply, ...headers } };
}
