/** State of one provider's circuit, by its address and model. Times are Unix ms, 0 = none. */
export interface CircuitState {
  /** Failures in a row. */
  failures: number;
  /** The circuit is open until then; afterwards one trial call at a time may pass. 0 = closed. */
  openUntil: number;
  /** A trial call is in progress until then; afterwards it counts as lost with its process. */
  probeUntil: number;
  /** The provider requested a pause until then. */
  throttledUntil: number;
}

export interface CircuitRules {
  /** Failures in a row that open the circuit. */
  failures: number;
  cooldownMs: number;
  /** Longest time of a trial call (ms); must exceed the duration of any call. */
  probeMs: number;
}

/** The latest time that a Date can hold. */
const LAST_DATE = 8.64e15;

export const CLOSED: CircuitState = { failures: 0, openUntil: 0, probeUntil: 0, throttledUntil: 0 };

/** Decision whether a call may be made now. A caller claims a trial by storing `state`. `open` and `throttled` forbid the call. */
export type Admission =
  | { kind: 'call' }
  | { kind: 'trial'; state: CircuitState }
  | { kind: 'open'; retryAfterMs: number }
  | { kind: 'throttled'; retryAfterMs: number };

/**
 * Result of an admitted call. `answer`: the provider replied, so it is up; `failure`: the provider's fault; `nothing`: the caller
 * aborted.
 */
export type CallReport =
  | { kind: 'success' }
  | { kind: 'answer' }
  | { kind: 'failure' }
  | { kind: 'throttle'; waitMs: number | null }
  | { kind: 'nothing' };

/** Returns whether a call may be made at `now` (Unix ms), and otherwise how long to wait. */
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
 * Returns the state after a call. `asTrial`: the call was the trial of an open circuit, and its result decides whether the circuit
 * closes. An ordinary call that began before the circuit opened leaves it open.
 */
export function afterCall(
  state: CircuitState,
  end: CallReport,
  { now, rules, asTrial }: { now: number; rules: CircuitRules; asTrial: boolean },
): CircuitState {
  const isOpen = state.openUntil > 0;
  const paused = end.kind === 'throttle' && end.waitMs !== null ? now + end.waitMs : 0;
  // Extend the pause, never shorten it: an earlier answer may have requested more.
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

/** Phase of a provider's circuit at the time of an attempt. */
export type CircuitPhase = 'closed' | 'open' | 'half-open';

/** Returns the phase at `now` (ms since the epoch). An open circuit becomes half-open at `openUntil`. */
export function phaseOf(state: CircuitState, now: number): CircuitPhase {
  if (state.openUntil === 0) return 'closed';
  return now < state.openUntil ? 'open' : 'half-open';
}

/** Returns a stored state as it was written, or the closed state for any other text. */
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
