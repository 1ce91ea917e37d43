import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Log } from '#infra/log/log.ts';
import type { SharedCells } from '#infra/redis/shared-cells.ts';
import {
  type Admission,
  admit,
  afterCall,
  type CallReport,
  type CircuitRules,
  type CircuitState,
  CLOSED,
  readCircuit,
} from '#shared/classifier/provider/circuit.ts';
import type { Target } from '#shared/classifier/provider/target.ts';
import type { Now } from '#shared/kernel/time.ts';

/** The circuits of the providers that this process calls. No method rejects. */
export interface Circuits {
  /** Returns whether a call may be made now. After `call` or `trial`, the caller must report the result with `end`. */
  admit(target: Target): Promise<Admission>;
  report(target: Target, end: CallReport, asTrial: boolean): Promise<void>;
  read(target: Target): Promise<CircuitState>;
}

/** Maximum of circuits in this process's memory. */
const MAX_CIRCUITS = 256;

/**
 * Opens circuits that all processes share in Redis. While Redis is unavailable, each process continues alone from the state
 * that it knew last. The state may be lost: a provider that is down then receives a few more calls.
 */
export function openCircuits(parts: {
  rules: CircuitRules;
  now: Now;
  log: Pick<Log, 'warn'>;
  shared: SharedCells | null;
  /** Receives the state of a circuit after each use. */
  used?: (target: Target, state: CircuitState) => void;
}): Circuits {
  const { rules, now, log, shared, used } = parts;
  const here = new LRUCache<string, CircuitState>({ max: MAX_CIRCUITS });

  /** Updates a circuit. `decide` returns the new state, or null to leave it unchanged. It may be called several times. */
  async function move(target: Target, decide: (state: CircuitState) => CircuitState | null): Promise<CircuitState> {
    const key = keyOf(target);
    const found = await shared?.update(key, (text) => {
      const state = decide(readCircuit(text));
      return state === null ? null : JSON.stringify(state);
    });
    const own = here.get(key) ?? CLOSED;
    const state = found?.kind === 'cell' ? readCircuit(found.text) : (decide(own) ?? own);
    here.set(key, state);
    used?.(target, state);
    return state;
  }

  return {
    async admit(target) {
      let admission: Admission = { kind: 'call' };
      const state = await move(target, (held) => {
        admission = admit(held, now(), rules);
        return admission.kind === 'trial' ? admission.state : null;
      });
      return isLost(admission, state) ? { kind: 'open', retryAfterMs: rules.cooldownMs } : admission;
    },
    async report(target, end, asTrial) {
      let opened = false;
      await move(target, (state) => {
        const next = afterCall(state, end, { now: now(), rules, asTrial });
        opened = next.openUntil > state.openUntil;
        return isSame(state, next) ? null : next;
      });
      const { provider, origin, model } = target;
      if (opened)
        log.warn(
          { provider, origin, model, cooldownMs: rules.cooldownMs },
          'model provider circuit opened; calls suspended',
        );
    },
    read: (target) => move(target, () => null),
  };
}

/** Another address or model has its own key and starts with a closed circuit. The hash hides the address from Redis. */
function keyOf({ provider, origin, model }: Target): string {
  return createHash('sha256')
    .update(JSON.stringify([provider, origin, model]))
    .digest('hex')
    .slice(0, 32);
}

/** Returns true if another process took the trial at the same time. */
function isLost(admission: Admission, state: CircuitState): boolean {
  return admission.kind === 'trial' && !isSame(admission.state, state);
}

function isSame(a: CircuitState, b: CircuitState): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
