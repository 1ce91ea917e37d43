import { setTimeout as delay } from 'node:timers/promises';
import pLimit, { type LimitFunction } from 'p-limit';
import type { Agent } from 'undici';
import type { ClassifierSettings } from '#infra/config/settings.ts';
import type { Log } from '#infra/log/log.ts';
import { ANTHROPIC } from '#infra/models/wires/anthropic.ts';
import { CHAT_COMPLETIONS } from '#infra/models/wires/chat-completions.ts';
import { GEMINI } from '#infra/models/wires/gemini.ts';
import { askMock } from '#infra/models/wires/mock.ts';
import type { Wire } from '#infra/models/wires/wire.ts';
import type { SharedCells } from '#infra/redis/shared-cells.ts';
import { openAnswerChecks } from '#infra/schema/validator.ts';
import { type CircuitRules, type CircuitState, CLOSED, phaseOf } from '#shared/classifier/provider/circuit.ts';
import type { ProviderName } from '#shared/classifier/provider/names.ts';
import {
  type ChosenTarget,
  keyOf,
  modelOf,
  type ProviderSelection,
  type ProviderStatus,
  type Target,
  targetOf,
} from '#shared/classifier/provider/target.ts';
import type { UsageEvent } from '#shared/classifier/provider/usage-event.ts';
import { ProviderFailure } from '#shared/classifier/tasks/task.ts';
import { type Now, SECOND } from '#shared/kernel/time.ts';
import { type AskParts, askProvider } from './ask-provider.ts';
import { openCircuits } from './circuits.ts';
import { openGuardedAgent } from './guarded-agent.ts';
import type { PerformParts } from './perform-task.ts';
import type { HttpTarget } from './provider-call.ts';
import type { Timing } from './retries.ts';

export interface ModelParts {
  settings: ClassifierSettings;
  /** MongoDB's time. It dates usage events and is common to all processes that share a circuit. */
  now: Now;
  log: Pick<Log, 'info' | 'warn'>;
  /** Accepts a usage event and returns at once; never throws. */
  recordUsage(event: UsageEvent): void;
  /** Receives the state of a provider's circuit after each use. */
  circuitUsed?(target: Target, state: CircuitState): void;
  /** If null, every process counts a provider's failures separately. */
  shared: SharedCells | null;
  /** The enabled stored setting. If null, the environment selects the provider. */
  selection: ProviderSelection | null;
  /** Replaced by tests; default: real time and randomness. */
  timing?: Timing;
}

/** Models that report their status and can be switched while calls are running. */
export interface ModelRuntime extends Pick<PerformParts, 'ask'> {
  /** Returns the status of the current provider. Reads Redis but does not call the provider. */
  status(): Promise<ProviderStatus>;
  /** Selects the provider of new requests; running requests keep theirs. null selects the environment's provider. */
  select(selection: ProviderSelection | null): void;
  /** Closes the connections. */
  close(): Promise<void>;
}

/** Maximum of concurrent calls from one process to one provider, for previews and jobs together. */
const CALLS_AT_ONCE = 16;
/** Time in addition to a call's timeout after which a circuit treats its trial as lost. A busy process reports late. */
const PROBE_SLACK_MS = 10 * SECOND;
const SYSTEM_TIMING: Timing = {
  clock: () => performance.now(),
  random: Math.random,
  sleep: (ms, signal) => delay(ms, undefined, { signal }).catch(() => signal.throwIfAborted()),
};

/** The protocol of each provider. The mock has none. */
export const WIRE_OF: Readonly<Record<Exclude<ProviderName, 'mock'>, Wire>> = {
  local: CHAT_COMPLETIONS,
  openai: CHAT_COMPLETIONS,
  deepseek: CHAT_COMPLETIONS,
  anthropic: ANTHROPIC,
  gemini: GEMINI,
};

/** The current provider: its selection and the resulting target. */
interface Selected {
  selection: ProviderSelection;
  source: ProviderStatus['configurationSource'];
  chosen: ChosenTarget;
}

/** Opens models. The first request opens the first connection. */
export function openModels(parts: ModelParts): ModelRuntime {
  const { settings, now, log, recordUsage, timing = SYSTEM_TIMING } = parts;
  const rules: CircuitRules = { ...settings.circuit, probeMs: settings.timeoutMs + PROBE_SLACK_MS };
  const used = parts.circuitUsed;
  const circuits = openCircuits({ rules, now, log, shared: parts.shared, ...(used === undefined ? {} : { used }) });
  const asking: AskParts = {
    circuits,
    timing,
    now,
    recordUsage,
    forms: new Map(),
    checkOf: openAnswerChecks(),
    timeoutMs: settings.timeoutMs,
    maxRetries: settings.maxRetries,
    streaming: settings.streaming,
  };
  const slots = new Map<ProviderName, LimitFunction>();
  const agents = new Map<boolean, Promise<Agent>>();
  let current = selected(parts.selection);

  function selected(stored: ProviderSelection | null): Selected {
    const { provider, model, baseUrl } = settings;
    const selection = stored ?? { provider, model, baseUrl, apiKeyRef: null };
    return { selection, source: stored === null ? 'environment' : 'database', chosen: targetOf(selection, settings) };
  }

  function slotsOf(provider: ProviderName): LimitFunction {
    const limit = slots.get(provider) ?? pLimit(CALLS_AT_ONCE);
    slots.set(provider, limit);
    return limit;
  }

  function agentOf({ mayBePrivate: allowsPrivate }: Target): Promise<Agent> {
    const agent = agents.get(allowsPrivate) ?? openGuardedAgent({ allowsPrivate });
    agents.set(allowsPrivate, agent);
    return agent;
  }

  return {
    async ask(task, terms, signal) {
      signal.throwIfAborted();
      const { chosen, selection } = current;
      if (chosen.kind === 'unusable') {
        const message = `${selection.provider} cannot be called: ${chosen.fault}`;
        throw new ProviderFailure('AI_PROVIDER_NOT_CONFIGURED', 'refused', { message });
      }
      const { target } = chosen;
      if (!isHttp(target)) return askMock(task, terms, { ...asking, model: target.model });
      return askProvider(asking, {
        target,
        task,
        terms,
        signal,
        wire: WIRE_OF[target.provider],
        dispatcher: await agentOf(target),
        slots: slotsOf(target.provider),
      });
    },
    async status() {
      const { selection, source, chosen } = current;
      const isUsable = chosen.kind === 'usable';
      const state = isUsable && isHttp(chosen.target) ? await circuits.read(chosen.target) : CLOSED;
      return {
        status: isUsable ? 'ok' : 'degraded',
        provider: selection.provider,
        model: modelOf(selection, settings.places),
        configurationSource: source,
        apiKeyConfigured: keyOf(selection, settings) !== null,
        features: {
          classify: isUsable,
          generate: isUsable,
          explain: isUsable,
          grade: isUsable,
          streaming: settings.streaming && selection.provider !== 'mock',
          structuredOutput: selection.provider !== 'deepseek',
        },
        circuit: {
          state: phaseOf(state, now()),
          consecutiveFailures: state.failures,
          openUntil: state.openUntil > 0 ? new Date(state.openUntil) : null,
          throttledUntil: state.throttledUntil > now() ? new Date(state.throttledUntil) : null,
        },
      };
    },
    select(stored) {
      current = selected(stored);
      const { provider, model, baseUrl } = current.selection;
      log.info({ provider, model, baseUrl, source: current.source }, 'model provider switched');
    },
    async close() {
      await Promise.all([...agents.values()].map(async (agent) => (await agent).destroy()));
    },
  };
}

function isHttp(target: Target): target is HttpTarget {
  return target.provider !== 'mock' && target.baseUrl !== null;
}
