import type { ModelObserver } from '#infra/models/followed-models.ts';
import { type CircuitPhase, type CircuitState, CLOSED, phaseOf } from '#shared/classifier/provider/circuit.ts';
import { PROVIDERS, type ProviderName } from '#shared/classifier/provider/names.ts';
import type { UsageEvent } from '#shared/classifier/provider/usage-event.ts';
import type { Now } from '#shared/kernel/time.ts';
import type { Metrics } from './metrics.ts';

const CALL_BUCKETS_S = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60, 120];
const OUTCOMES: readonly UsageEvent['outcome'][] = ['success', 'failure', 'cancelled'];
const PHASES: readonly CircuitPhase[] = ['closed', 'open', 'half-open'];
/** Providers that are called over HTTP. */
const CALLED = PROVIDERS.filter((name) => name !== 'mock');

/**
 * Registers the calls of model providers, their tokens and their circuits. A circuit has the state that this process saw at its last
 * call: nothing reads Redis for this metric.
 */
export function modelMetrics(metrics: Pick<Metrics, 'counter' | 'gauge' | 'histogram'>, now: Now): ModelObserver {
  const calls = metrics.histogram(
    'examhall_provider_call_duration_seconds',
    'Time of a call to a model provider, by how it ended',
    CALL_BUCKETS_S,
  );
  const tokens = metrics.counter('examhall_provider_tokens_total', 'Tokens that model providers reported', [
    'provider',
    'direction',
  ]);
  const circuits = new Map<ProviderName, CircuitState>();
  for (const provider of CALLED) {
    circuits.set(provider, CLOSED);
    for (const outcome of OUTCOMES) calls.series({ provider, outcome });
    for (const direction of ['input', 'output']) tokens.add({ provider, direction }, 0);
  }
  metrics.gauge('examhall_provider_circuit', '1 for the state of the circuit', ['provider', 'state'], (gauge) => {
    for (const [provider, circuit] of circuits) {
      const phase = phaseOf(circuit, now());
      for (const state of PHASES) gauge.set(state === phase ? 1 : 0, { provider, state });
    }
  });

  return {
    called({ provider, outcome, latencyMs, inputTokens, outputTokens }) {
      calls.series({ provider, outcome })(latencyMs / 1_000);
      tokens.add({ provider, direction: 'input' }, inputTokens ?? 0);
      tokens.add({ provider, direction: 'output' }, outputTokens ?? 0);
    },
    circuitUsed: ({ provider }, state) => void circuits.set(provider, state),
  };
}
