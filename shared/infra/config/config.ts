import manifest from '../../../package.json' with { type: 'json' };
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
  WELL_KNOWN,
} from './variable.ts';
import { variableReader } from './variable-reader.ts';

/** The version of this software, as health, index and OpenAPI return it. */
export const VERSION: string = manifest.version;

/** The configuration of a process. `...Ms` are milliseconds, `...Seconds` seconds. An undefined token is not configured. */
export interface Config extends Warnings {
  environment: Environment;
  production: boolean;
  services: ReadonlySet<ServiceName>;
  host: string;
  port: number;
  /** Port of a worker's own health and metrics; null means that it does not listen. */
  metricsPort: number | null;
  logLevel: LogLevel;
  shutdown: { timeoutMs: number; drainGraceMs: number };
  mongodb: { url: string; database: string };
  redis: { url: string };
  /** Undefined: not required. Empty: required, but no request can match it, so routes that trust identity headers are closed. */
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

/** Warnings to log at the start: `warnings` in any process, `doorWarnings` in a front door. */
interface Warnings {
  warnings: readonly string[];
  doorWarnings: readonly string[];
}

/** A configuration without its warnings. */
type Settings = Omit<Config, keyof Warnings>;

/** Thrown if the environment is invalid. The message lists every fault, one per line, and shows no secret. */
export class ConfigError extends Error {
  readonly faults: readonly string[];

  constructor(faults: readonly string[]) {
    super(`The configuration has ${faults.length} fault(s):\n${faults.map((fault) => `  ${fault}`).join('\n')}`);
    this.name = 'ConfigError';
    this.faults = faults;
  }
}

/**
 * Reads and checks the whole environment at once. No other code reads the environment later.
 *
 * @throws ConfigError that lists every fault
 */
export function readConfig(env: NodeJS.ProcessEnv): Config {
  const production = env.NODE_ENV === 'production';
  const from = variableReader(env, production);
  const internalServiceToken = from.token('INTERNAL_SERVICE_TOKEN');
  const mongodbUrl = from.text('MONGODB_URL');
  const services = from.list('SERVICES', SERVICE_NAMES);
  const senderTokens = readSenderTokens(from);
  const config: Settings = {
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
  // A token that several settings use is read several times, so remove duplicate faults.
  const faults = [...new Set(from.faults)];
  if (faults.length > 0) throw new ConfigError(faults);
  return { ...config, ...warningsOf(config) };
}

function databaseOf(mongodbUrl: string): string {
  const path = /^mongodb(?:\+srv)?:\/\/[^/?]*\/([^?]*)/.exec(mongodbUrl)?.[1];
  return path === undefined || path === '' ? 'examhall' : path;
}

/** EX_CONFIG of sysexits.h. A supervisor can see from it that a restart will not help. */
const EXIT_CODE = 78;

/** Returns the configuration. If it is invalid, prints its faults to stderr, without a stack, and exits with 78. */
export function configOrExit(env: NodeJS.ProcessEnv): Config {
  try {
    return readConfig(env);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    console.error(error.message);
    process.exit(EXIT_CODE);
  }
}

/** Returns warnings about settings that are allowed but probably unintended. In development, warns only about exposed secrets. */
export function warningsOf(config: Settings): Warnings {
  const secret = knownSecretWarnings(config);
  if (!config.production) return { warnings: [], doorWarnings: secret };
  return { warnings: processWarnings(config), doorWarnings: [...doorWarnings(config), ...secret] };
}

function processWarnings(config: Settings): string[] {
  const warnings: string[] = [];
  if (config.opsToken === undefined) warnings.push('OPS_TOKEN is not set: /metrics refuses every request');
  if (config.internalServiceToken === undefined) {
    warnings.push('INTERNAL_SERVICE_TOKEN is not set: calls to other services carry no token');
  }
  return warnings;
}

function doorWarnings(config: Settings): string[] {
  const warnings: string[] = [];
  if (config.gatewayToken === undefined) {
    warnings.push('GATEWAY_TOKEN is not set: every caller that reaches this port can set identity headers');
  }
  if (config.gatewayToken === '') {
    warnings.push('GATEWAY_TOKEN is empty: every route that trusts identity headers refuses every request');
  }
  if (config.services.has('attempt') && config.attempt.receiverToken === undefined) {
    warnings.push('no receiver token of the attempt service is set; every start, release and handoff is refused');
  }
  return warnings;
}

/**
 * Warns if the development secret is used on an address that other machines reach, for example because NODE_ENV was forgotten. Any
 * reader of this repository could then sign in to any account.
 */
function knownSecretWarnings({ services, host, auth }: Settings): string[] {
  const reached = !/^(127\.|::1$|localhost$)/.test(host);
  if (!services.has('auth') || !reached || !WELL_KNOWN.has(auth.jwt.secret)) return [];
  return [
    'AUTH_JWT_SECRET is the development default and HOST is reachable from elsewhere: any caller can sign tokens',
  ];
}

/** Returns every secret of a configuration. The log replaces them wherever they occur. */
export function secretsOf(config: Config): string[] {
  const all = [
    config.gatewayToken,
    config.internalServiceToken,
    config.opsToken,
    config.attempt.receiverToken,
    ...Object.values(config.notification.senderTokens),
    ...(config.notification.webhook?.secrets ?? []),
    ...Object.values(config.classifier.keys),
    config.auth.jwt.secret,
    ...config.auth.jwt.previousSecrets,
    ...Object.values(config.neighbours).map((neighbour) => neighbour?.token),
    passwordOf(config.mongodb.url),
    passwordOf(config.redis.url),
  ];
  return [...new Set(all.filter((secret): secret is string => secret !== undefined && secret !== ''))];
}

/** Returns the password of a connection string. `URL` cannot parse MongoDB URLs that name several hosts. */
function passwordOf(url: string): string | undefined {
  const password = /^[a-z+]+:\/\/[^/?@]*?:([^/?@]*)@/i.exec(url)?.[1];
  return password === undefined ? undefined : decodeURIComponent(password);
}
