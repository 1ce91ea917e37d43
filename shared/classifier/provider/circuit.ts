/** What is remembered of one provider, by its address and model. Times are Unix ms, 0 = none. */
export interface CircuitState {
  /** Failures in a row. */
  failures: number;
  /** Open until then; from then on, one call at a time may try. 0 = closed. */
  openUntil: number;
  /** Until then a trial is out; then it counts as lost with its process. */
  probeUntil: number;
  /** The provider asked for a pause until then. */
  throttledUntil: number;
}

export interface CircuitRules {
  /** Failures in a row that open it. */
  failures: number;
  cooldownMs: number;
  /** For how long a trial may be out: longer than any call. */
  probeMs: number;
}

/** The latest time that a Date can hold. */
const LAST_DATE = 8.64e15;

export const CLOSED: CircuitState = { failures: 0, openUntil: 0, probeUntil: 0, throttledUntil: 0 };

/** Whether a call may be made now; a trial is taken by storing `state`. Nothing is called while `open` or `throttled`. */
export type Admission =
  | { kind: 'call' }
  | { kind: 'trial'; state: CircuitState }
  | { kind: 'open'; retryAfterMs: number }
  | { kind: 'throttled'; retryAfterMs: number };

/** What became of a call that was admitted. `failure`: the provider's fault; `answer`: it spoke; `nothing`: we gave up. */
export type CallEnd =
  | { kind: 'success' }
  | { kind: 'answer' }
  | { kind: 'failure' }
  | { kind: 'throttle'; waitMs: number | null }
  | { kind: 'nothing' };

export function admit(state: CircuitState, now: number, rules: CircuitRules): Admission {
  if (now < state.throttledUntil) return { kind: 'throttled', retryAfterMs: state.throttledUntil - now };
  if (state.openUntil === 0) return { kind: 'call' };
  if (now < state.openUntil) return { kind: 'open', retryAfterMs: state.openUntil - now };
  if (now < state.probeUntil) {
    return { kind: 'open', retryAfterMs: Math.min(state.probeUntil - now, rules.cooldownMs) };
  }
  return { kind: 'trial', state: { ...state, probeUntil: now + rules.probeMs } };
}

/**
 * The state after a call. `asTrial`: the call was the one that tried an open circuit, and its end decides; an ordinary
 * call that began before the circuit opened and ends after it changes nothing of that.
 */
export function afterCall(
  state: CircuitState,
  end: CallEnd,
  { now, rules, asTrial }: { now: number; rules: CircuitRules; asTrial: boolean },
): CircuitState {
  const isOpen = state.openUntil > 0;
  const paused = end.kind === 'throttle' && end.waitMs !== null ? now + end.waitMs : 0;
  // Extended, never shortened: an earlier answer may have asked for more.
  const gated = { ...state, throttledUntil: Math.max(state.throttledUntil, paused) };
  if (isOpen && !asTrial) return gated;
  switch (end.kind) {
    case 'success':
    case 'answer':
      return { ...gated, failures: 0, openUntil: 0, probeUntil: 0 };
    case 'throttle':
      return asTrial ? { ...gated, failures: 0, openUntil: 0, probeUntil: 0 } : gated;
    case 'failure': {
      const failures = gated.failures + 1;
      const opens = asTrial || failures >= rules.failures;
      return { ...gated, failures, openUntil: opens ? now + rules.cooldownMs : 0, probeUntil: 0 };
    }
    case 'nothing':
      return { ...gated, probeUntil: asTrial ? 0 : gated.probeUntil };
  }
}

/** What the circuit of a provider was when an attempt was made. */
export type CircuitPhase = 'closed' | 'open' | 'half-open';

export function phaseOf(state: CircuitState, now: number): CircuitPhase {
  if (state.openUntil === 0) return 'closed';
  return now < state.openUntil ? 'open' : 'half-open';
}

/** A stored state as it was written; a closed one for anything else. */
export function readCircuit(text: string | null): CircuitState {
  if (text === null) return CLOSED;
  try {
    const read: unknown = JSON.parse(text);
    if (typeof read !== 'object' || read === null) return CLOSED;
    const numbers = Object.keys(CLOSED).map((name) => [name, (read as Record<string, unknown>)[name]] as const);
    if (!numbers.every(([, value]) => typeof value === 'number' && value >= 0 && value <= LAST_DATE)) return CLOSED;
    return Object.fromEntries(numbers) as unknown as CircuitState;
  } catch {
    return CLOSED;
  }
}
