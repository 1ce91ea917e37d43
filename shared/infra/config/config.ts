import {
  ENVIRONMENTS,
  type Environment,
  LOG_LEVELS,
  type LogLevel,
  SERVICE_NAMES,
  type ServiceName,
} from './variable.ts';
import { type VariableReader, variableReader } from './variable-reader.ts';
import type { NamesOf } from './variables.ts';

/** Another service: base URL without a final slash; without a token calls carry none. */
export interface Neighbour {
  url: string;
  token: string | undefined;
}

/** Everything a process knows from its environment. `...Ms` are milliseconds, `...Seconds` seconds; an undefined token = there is none. */
export interface Config {
  environment: Environment;
  production: boolean;
  /** Sentences for the log of a start: allowed, yet probably not meant. */
  warnings: readonly string[];
  services: ReadonlySet<ServiceName>;
  host: string;
  port: number;
  /** Port of a worker's own health and metrics; null = it does not listen. */
  metricsPort: number | null;
  logLevel: LogLevel;
  shutdown: { timeoutMs: number; drainGraceMs: number };
  mongodb: { url: string; database: string };
  redis: { url: string };
  /** Empty = it is demanded and nobody has it: every route that trusts identity headers is closed. */
  gatewayToken: string | undefined;
  internalServiceToken: string | undefined;
  opsToken: string | undefined;
  /** null = not configured. */
  neighbours: { notification: Neighbour | null; profile: Neighbour | null; analytics: Neighbour | null };
  outboundTimeoutMs: number;
  attempt: {
    /** Demanded by start, release and handoff. */
    receiverToken: string | undefined;
    gradingWaitMs: number;
    overdueGraceSeconds: number;
    outbox: { maxAttempts: number; retryBaseMs: number };
    startBudgetMs: number;
  };
  worker: {
    pollIntervalMs: number;
    maxAttempts: number;
    leaseMs: number;
    concurrency: number;
    retryBaseDelayMs: number;
  };
  upkeep: { intervalMs: number };
  limits: { bodyBudgetBytes: number; headTimeoutMs: number; bodyTimeoutMs: number };
}

/** The environment does not make a Config. The message lists every fault, one per line, and shows no secret. */
export class ConfigError extends Error {
  readonly faults: readonly string[];

  constructor(faults: readonly string[]) {
    super(`The configuration has ${faults.length} fault(s):\n${faults.map((fault) => `  ${fault}`).join('\n')}`);
    this.name = 'ConfigError';
    this.faults = faults;
  }
}

/**
 * Reads and checks the whole environment at once; nothing reads the environment later.
 * @throws ConfigError
 */
export function readConfig(env: NodeJS.ProcessEnv): Config {
  const production = env.NODE_ENV === 'production';
  const from = variableReader(env, production);
  const internalServiceToken = from.token('INTERNAL_SERVICE_TOKEN');
  const mongodbUrl = from.text('MONGODB_URL');
  const config: Omit<Config, 'warnings'> = {
    environment: from.word('NODE_ENV', ENVIRONMENTS),
    production,
    services: from.list('SERVICES', SERVICE_NAMES),
    host: from.text('HOST'),
    port: from.integer('PORT'),
    metricsPort: from.optionalInteger('METRICS_PORT'),
    logLevel: from.word('LOG_LEVEL', LOG_LEVELS),
    shutdown: { timeoutMs: from.integer('SHUTDOWN_TIMEOUT_MS'), drainGraceMs: from.integer('DRAIN_GRACE_MS') },
    mongodb: { url: mongodbUrl, database: from.optionalText('MONGODB_DATABASE') ?? databaseOf(mongodbUrl) },
    redis: { url: from.text('REDIS_URL') },
    gatewayToken: from.token('GATEWAY_TOKEN') ?? (from.isSet('GATEWAY_TOKEN') ? '' : undefined),
    internalServiceToken,
    opsToken: from.token('OPS_TOKEN'),
    neighbours: {
      notification: neighbour(
        from,
        ['NOTIFICATION_SERVICE_URL', 'NOTIFICATION_SERVICE_BASE_URL'],
        firstToken(from, [
          'NOTIFICATION_TOKEN_ATTEMPT_SERVICE',
          'NOTIFICATION_INTERNAL_SERVICE_TOKEN',
          'INTERNAL_SERVICE_TOKEN',
        ]),
      ),
      profile: neighbour(from, ['PROFILE_SERVICE_URL', 'PROFILE_SERVICE_BASE_URL'], internalServiceToken),
      analytics: neighbour(from, ['ANALYTICS_SERVICE_URL', 'ANALYTICS_SERVICE_BASE_URL'], internalServiceToken),
    },
    outboundTimeoutMs: from.integer('OUTBOUND_TIMEOUT_MS'),
    attempt: {
      receiverToken: firstToken(from, ['ATTEMPT_INTERNAL_SERVICE_TOKEN', 'INTERNAL_SERVICE_TOKEN']),
      gradingWaitMs: from.integer('ATTEMPT_GRADING_WAIT_MS'),
      overdueGraceSeconds: from.integer('ATTEMPT_OVERDUE_GRACE_SECONDS'),
      outbox: {
        maxAttempts: from.integer('ATTEMPT_OUTBOX_MAX_ATTEMPTS'),
        retryBaseMs: from.integer('ATTEMPT_OUTBOX_RETRY_BASE_MS'),
      },
      startBudgetMs: from.integer('START_BUDGET_MS'),
    },
    worker: {
      pollIntervalMs: from.integer('WORKER_POLL_INTERVAL_MS'),
      maxAttempts: from.integer('WORKER_MAX_ATTEMPTS'),
      leaseMs: from.integer('WORKER_LEASE_MS'),
      concurrency: from.integer('WORKER_CONCURRENCY'),
      retryBaseDelayMs: from.integer('WORKER_RETRY_BASE_DELAY_MS'),
    },
    upkeep: { intervalMs: from.integer('UPKEEP_INTERVAL_MS') },
    limits: {
      bodyBudgetBytes: from.integer('BODY_BUDGET_BYTES'),
      headTimeoutMs: from.integer('REQUEST_HEAD_TIMEOUT_MS'),
      bodyTimeoutMs: from.integer('REQUEST_BODY_TIMEOUT_MS'),
    },
  };
  // A token is read once for each of its uses.
  const faults = [...new Set(from.faults)];
  if (faults.length > 0) throw new ConfigError(faults);
  return { ...config, warnings: production ? warningsOf(config) : [] };
}

function neighbour(
  from: VariableReader,
  [name, alias]: [NamesOf<'neighbour'>, NamesOf<'neighbour'>],
  token: string | undefined,
): Neighbour | null {
  const [first, second] = [from.neighbour(name), from.neighbour(alias)];
  const url = from.isSet(name) ? first : second;
  return url === null ? null : { url, token };
}

/** The first of these that is set decides, even by being empty: an empty token is no token, not the next one. */
function firstToken(from: VariableReader, names: readonly NamesOf<'token'>[]): string | undefined {
  const values = names.map((name) => ({ set: from.isSet(name), value: from.token(name) }));
  return values.find((token) => token.set)?.value;
}

function databaseOf(mongodbUrl: string): string {
  const path = /^mongodb(?:\+srv)?:\/\/[^/?]*\/([^?]*)/.exec(mongodbUrl)?.[1];
  return path === undefined || path === '' ? 'examhall' : path;
}

function warningsOf(config: Omit<Config, 'warnings'>): string[] {
  const warnings: string[] = [];
  if (config.gatewayToken === undefined) {
    warnings.push('GATEWAY_TOKEN is not set: whoever reaches this port can write identity headers');
  }
  if (config.gatewayToken === '') {
    warnings.push('GATEWAY_TOKEN is set to nothing: every route that trusts identity headers refuses everybody');
  }
  if (config.opsToken === undefined) warnings.push('OPS_TOKEN is not set: /metrics refuses everybody');
  if (config.internalServiceToken === undefined) {
    warnings.push('INTERNAL_SERVICE_TOKEN is not set: calls to other services carry no token');
  }
  if (config.services.has('attempt') && config.attempt.receiverToken === undefined) {
    warnings.push('No receiver token of the attempt service is set: it refuses every start, release and handoff');
  }
  return warnings;
}
