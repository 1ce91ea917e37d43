import type { KeyVariable } from './provider-names.ts';
import type { CircuitPhase } from './usage-event.ts';

/** Which provider is asked, as the environment or a stored setting says it. */
export interface ProviderSelection {
  /** May be none that this process knows: a slip in the environment, or stored by a newer process. */
  provider: string;
  /** null = a default of the provider. */
  model: string | null;
  /** null = the provider's official address. */
  baseUrl: string | null;
  /** The variable that holds the key; null = the generic one, else the provider's own. */
  apiKeyRef: KeyVariable | null;
}

export type ConfigurationSource = 'environment' | 'database';

/** What is known of the provider without asking it; never a secret. */
export interface ProviderStatus {
  /** `degraded`: asks are refused, or fail for want of a key. */
  status: 'ok' | 'degraded';
  provider: string;
  model: string | null;
  configurationSource: ConfigurationSource;
  apiKeyConfigured: boolean;
  features: {
    classify: boolean;
    generate: boolean;
    explain: boolean;
    grade: boolean;
    streaming: boolean;
    structuredOutput: boolean;
  };
  circuit: {
    state: CircuitPhase;
    consecutiveFailures: number;
    /** Until when the provider is left alone. */
    openUntil: Date | null;
    /** Until when the provider asked for a pause. */
    throttledUntil: Date | null;
  };
}
