import type { Secrets } from '#shared/kernel/secret.ts';
import { isSecurityContact } from '#shared/operations/security-txt.ts';
import manifest from '../../../package.json' with { type: 'json' };
import { type ClassifierSettings, readClassifier } from './classifier-settings.ts';
import { FILED, ownEnvironment, reads, withSecretFiles } from './environment.ts';
import {
  type ConfiguredAs,
  type ProcessType,
  type ReadingProcess,
  SERVICE_NAMES,
  type ServiceName,
} from './readers.ts';
import {
  type AttemptSettings,
  type AuthSettings,
  type Neighbours,
  type NotificationSettings,
  type Retention,
  readAttempt,
  readAuth,
  readNeighbours,
  readNotification,
  readRetention,
  readSenderTokens,
} from './settings.ts';
import { servesLoopbackAlone, trustFaults } from './trust.ts';
import {
  ENVIRONMENTS,
  type Environment,
  GATEWAY_TRUSTS,
  type GatewayTrust,
  LOG_LEVELS,
  type LogLevel,
} from './variable.ts';
import { type VariableReader, variableReader } from './variable-reader.ts';
import type { VariableName } from './variables.ts';
import { warningsOf } from './warnings.ts';

/** The version of this software, as health, index and OpenAPI return it. */
export const VERSION: string = manifest.version;

/**
 * The configuration of a process. `...Ms` are milliseconds, `...Seconds` seconds. An undefined token is not configured, or is one that this
 * type of process does not read.
 */
export interface Config {
  environment: Environment;
  production: boolean;
  /** Sentences to log at the start. */
  warnings: readonly string[];
  /** The services whose front doors the process opens; empty in every process but `web`. */
  services: ReadonlySet<ServiceName>;
  host: string;
  port: number;
  /** Port of a worker's own health and metrics; null means that it does not listen. */
  metricsPort: number | null;
  logLevel: LogLevel;
  /** True if `web` serves the reference of the API. */
  apiDocs: boolean;
  shutdown: { timeoutMs: number; drainGraceMs: number };
  mongodb: { url: string; database: string };
  /** Empty in `release`, which has no Redis. */
  redis: { url: string };
  /** `network`: only the gateway can reach the port, as the operator states. */
  gatewayTrust: GatewayTrust;
  /** True if a process outside production may listen for other machines with well-known tokens or without a gateway token. */
  isOpen: boolean;
  /** True if a request must name a host of loopback: outside production on loopback, unless `isOpen`. */
  loopbackOnly: boolean;
  // Each token below has its accepted values, the current one first.
  /** Undefined: not required. Empty: required, but no request can match it, so routes that trust identity headers are closed. */
  gatewayToken: Secrets | undefined;
  internalServiceToken: Secrets | undefined;
  opsToken: Secrets | undefined;
  opsReadToken: Secrets | undefined;
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
    backgroundWaiting: number;
    retryBaseDelayMs: number;
  };
  upkeep: { intervalMs: number; retention: Retention };
  /** `allowsPrivate`: subscribers to events may have addresses of private networks. */
  subscriptions: { allowsPrivate: boolean };
  /** Addresses in `/.well-known/security.txt`; empty: not configured. */
  securityContacts: readonly string[];
  limits: { bodyBudgetBytes: number; headTimeoutMs: number; bodyTimeoutMs: number; maxConnections: number };
}

/** A configuration without its warnings. */
type Settings = Omit<Config, 'warnings' | 'loopbackOnly'>;

/** Thrown if the environment is invalid. The message lists every fault, one per line, and shows no secret. */
export class ConfigError extends Error {
  readonly faults: readonly string[];

  constructor(faults: readonly string[]) {
    const count = faults.length === 1 ? '1 fault' : `${faults.length} faults`;
    super(`${count} in the configuration:\n${faults.map((fault) => `  ${fault}`).join('\n')}`);
    this.name = 'ConfigError';
    this.faults = faults;
  }
}

function readSecurityContacts(from: VariableReader): string[] {
  const contacts = from.optionalText('SECURITY_CONTACT')?.split(',') ?? [];
  const addresses = contacts.map((part) => part.trim());
  if (!addresses.every(isSecurityContact))
    from.faults.push('SECURITY_CONTACT: wanted mailto:, tel: or https addresses, comma-separated');
  return addresses;
}

/**
 * Reads and checks the environment of a process at once. No other code reads the environment later. The configuration contains only the
 * secrets and addresses that this type of process reads.
 *
 * @throws ConfigError that lists every fault
 */
export function readConfig(given: NodeJS.ProcessEnv, type: ConfiguredAs): Config {
  const production = given.NODE_ENV === 'production';
  const process = readingProcess(given, type);
  const own = ownEnvironment(given, process);
  const isRead = (name: VariableName) => reads(process, name);
  const { env, faults: fileFaults } = withSecretFiles(own.env, FILED.filter(isRead));
  const from = variableReader(env, production, isRead);
  const internalServiceToken = from.tokens('INTERNAL_SERVICE_TOKEN');
  const mongodbUrl = from.text('MONGODB_URL');
  // Both are used above, and checked here.
  from.list('SERVICES', SERVICE_NAMES);
  from.optionalText('CREDENTIALS_DIRECTORY');
  const { services } = process;
  const senderTokens = readSenderTokens(from);
  const neighbours = readNeighbours(from, {
    internal: internalServiceToken?.[0],
    notification: senderTokens['attempt-service']?.[0],
  });
  const config: Settings = {
    environment: from.word('NODE_ENV', ENVIRONMENTS),
    production,
    services,
    host: from.text('HOST'),
    port: from.integer('PORT'),
    metricsPort: from.optionalInteger('METRICS_PORT'),
    logLevel: from.word('LOG_LEVEL', LOG_LEVELS),
    apiDocs: from.word('API_DOCS', ['0', '1']) === '1',
    shutdown: { timeoutMs: from.integer('SHUTDOWN_TIMEOUT_MS'), drainGraceMs: from.integer('DRAIN_GRACE_MS') },
    mongodb: { url: mongodbUrl, database: from.optionalText('MONGODB_DATABASE') ?? databaseOf(mongodbUrl) },
    redis: { url: from.text('REDIS_URL') },
    gatewayTrust: from.word('GATEWAY_TRUST', GATEWAY_TRUSTS),
    isOpen: from.word('EXAMHALL_OPEN', ['0', '1']) === '1',
    gatewayToken: from.tokens('GATEWAY_TOKEN') ?? (from.isSet('GATEWAY_TOKEN') ? [] : undefined),
    internalServiceToken,
    opsToken: from.tokens('OPS_TOKEN'),
    opsReadToken: from.tokens('OPS_READ_TOKEN'),
    neighbours,
    outboundTimeoutMs: from.integer('OUTBOUND_TIMEOUT_MS'),
    attempt: readAttempt(from),
    auth: readAuth(from, { served: services.has('auth') }),
    notification: readNotification(from, senderTokens, {
      needsToken: production && services.has('notification'),
      hasProfile: neighbours.profile !== null,
    }),
    classifier: readClassifier(from),
    worker: {
      pollIntervalMs: from.integer('WORKER_POLL_INTERVAL_MS'),
      maxAttempts: from.integer('WORKER_MAX_ATTEMPTS'),
      leaseMs: from.integer('WORKER_LEASE_MS'),
      concurrency: from.integer('WORKER_CONCURRENCY'),
      backgroundWaiting: from.integer('WORKER_BACKGROUND_WAITING'),
      retryBaseDelayMs: from.integer('WORKER_RETRY_BASE_DELAY_MS'),
    },
    upkeep: { intervalMs: from.integer('UPKEEP_INTERVAL_MS'), retention: readRetention(from) },
    subscriptions: { allowsPrivate: from.word('EVENT_SUBSCRIPTIONS_PRIVATE', ['0', '1']) === '1' },
    securityContacts: readSecurityContacts(from),
    limits: {
      bodyBudgetBytes: from.integer('BODY_BUDGET_BYTES'),
      headTimeoutMs: from.integer('REQUEST_HEAD_TIMEOUT_MS'),
      bodyTimeoutMs: from.integer('REQUEST_BODY_TIMEOUT_MS'),
      maxConnections: from.integer('MAX_CONNECTIONS'),
    },
  };
  // A token that several settings use is read several times, so remove duplicate faults.
  const faults = [...new Set([...fileFaults, ...from.faults, ...trustFaults(from, config)])];
  if (faults.length > 0) throw new ConfigError(faults);
  const loopbackOnly = servesLoopbackAlone(config);
  return { ...config, loopbackOnly, warnings: warningsOf(from, config, { process, foreign: own.foreign }) };
}

/** Returns the process of an environment: SERVICES decides which variables a front door reads. */
export function readingProcess(env: NodeJS.ProcessEnv, type: ConfiguredAs): ReadingProcess {
  const { list } = variableReader(env, false, () => true);
  const hasDoors = type === 'web' || type === 'cluster';
  return { type, services: hasDoors ? list('SERVICES', SERVICE_NAMES) : new Set() };
}

function databaseOf(mongodbUrl: string): string {
  const path = /^mongodb(?:\+srv)?:\/\/[^/?]*\/([^?]*)/.exec(mongodbUrl)?.[1];
  return path === undefined || path === '' ? 'examhall' : path;
}

/** EX_CONFIG of sysexits.h. A supervisor can see from it that a restart will not help. */
const EXIT_CODE = 78;

/** Returns the configuration. If it is invalid, prints its faults to stderr, without a stack, and exits with 78. */
export function configOrExit(env: NodeJS.ProcessEnv, type: ProcessType): Config {
  try {
    return readConfig(env, type);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    console.error(`error: ${error.message}`);
    process.exit(EXIT_CODE);
  }
}

/** Returns every secret of a configuration. The log replaces them wherever they occur. */
export function secretsOf(config: Config): string[] {
  const all = [
    ...[config.gatewayToken, config.internalServiceToken, config.attempt.receiverToken].flat(),
    ...[config.opsToken, config.opsReadToken].flat(),
    ...Object.values(config.notification.senderTokens).flat(),
    ...(config.notification.webhook?.secrets ?? []),
    config.notification.email?.login?.password,
    config.notification.unsubscribe?.secret,
    config.notification.webpush?.privateKey,
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
