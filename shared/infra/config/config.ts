import {
  type AttemptSettings,
  type AuthSettings,
  type ClassifierSettings,
  type Neighbours,
  type NotificationSettings,
  readAttempt,
  readAuth,
  readClassifier,
  readNeighbours,
  readNotification,
  readSenderTokens,
} from './settings.ts';
import {
  ENVIRONMENTS,
  type Environment,
  LOG_LEVELS,
  type LogLevel,
  SERVICE_NAMES,
  type ServiceName,
} from './variable.ts';
import { variableReader } from './variable-reader.ts';
import { type Warnings, warningsOf } from './warnings.ts';

/** Everything a process knows from its environment. `...Ms` are milliseconds, `...Seconds` seconds; an undefined token = there is none. */
export interface Config extends Warnings {
  environment: Environment;
  production: boolean;
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
  neighbours: Neighbours;
  outboundTimeoutMs: number;
  attempt: AttemptSettings;
  auth: AuthSettings;
  notification: NotificationSettings;
  classifier: ClassifierSettings;
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
  const services = from.list('SERVICES', SERVICE_NAMES);
  const senderTokens = readSenderTokens(from);
  const config: Omit<Config, keyof Warnings> = {
    environment: from.word('NODE_ENV', ENVIRONMENTS),
    production,
    services,
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
    neighbours: readNeighbours(from, { internal: internalServiceToken, notification: senderTokens['attempt-service'] }),
    outboundTimeoutMs: from.integer('OUTBOUND_TIMEOUT_MS'),
    attempt: readAttempt(from),
    auth: readAuth(from, { served: services.has('auth') }),
    notification: readNotification(from, senderTokens, production && services.has('notification')),
    classifier: readClassifier(from),
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
  return { ...config, ...warningsOf(config) };
}

function databaseOf(mongodbUrl: string): string {
  const path = /^mongodb(?:\+srv)?:\/\/[^/?]*\/([^?]*)/.exec(mongodbUrl)?.[1];
  return path === undefined || path === '' ? 'examhall' : path;
}

/** EX_CONFIG of sysexits.h: whoever restarts what dies can tell that a restart will not help. */
const EXIT_CODE = 78;

/** The configuration of a process that has nothing to do without one: its faults go to stderr, without the stack of a bug. */
export function configOrExit(env: NodeJS.ProcessEnv): Config {
  try {
    return readConfig(env);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    console.error(error.message);
    process.exit(EXIT_CODE);
  }
}
