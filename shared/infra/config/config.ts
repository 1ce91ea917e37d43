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

/** The version that health, index and OpenAPI tell. */
export const VERSION: string = manifest.version;

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

/** Sentences for the log of a start: `warnings` of any process, `doorWarnings` of a front door. */
interface Warnings {
  warnings: readonly string[];
  doorWarnings: readonly string[];
}

/** A configuration before it is known what is odd in it. */
type Settings = Omit<Config, keyof Warnings>;

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

/** What is allowed and probably not meant. In development only what others could use. */
export function warningsOf(config: Settings): Warnings {
  const secret = knownSecretWarnings(config);
  if (!config.production) return { warnings: [], doorWarnings: secret };
  return { warnings: processWarnings(config), doorWarnings: [...doorWarnings(config), ...secret] };
}

function processWarnings(config: Settings): string[] {
  const warnings: string[] = [];
  if (config.opsToken === undefined) warnings.push('OPS_TOKEN is not set: /metrics refuses everybody');
  if (config.internalServiceToken === undefined) {
    warnings.push('INTERNAL_SERVICE_TOKEN is not set: calls to other services carry no token');
  }
  return warnings;
}

function doorWarnings(config: Settings): string[] {
  const warnings: string[] = [];
  if (config.gatewayToken === undefined) {
    warnings.push('GATEWAY_TOKEN is not set: whoever reaches this port can write identity headers');
  }
  if (config.gatewayToken === '') {
    warnings.push('GATEWAY_TOKEN is set to nothing: every route that trusts identity headers refuses everybody');
  }
  if (config.services.has('attempt') && config.attempt.receiverToken === undefined) {
    warnings.push('No receiver token of the attempt service is set: it refuses every start, release and handoff');
  }
  return warnings;
}

/** NODE_ENV forgotten on a machine that others reach: whoever reads this repository could sign in as anybody. */
function knownSecretWarnings({ services, host, auth }: Settings): string[] {
  const reached = !/^(127\.|::1$|localhost$)/.test(host);
  if (!services.has('auth') || !reached || !WELL_KNOWN.has(auth.jwt.secret)) return [];
  return ['AUTH_JWT_SECRET is the development default, and HOST is reachable from elsewhere: anybody can sign tokens'];
}

/** Every secret of a configuration, for the log to cut out wherever one turns up. */
export function secretsOf(config: Config): string[] {
  const all = [
    config.gatewayToken,
    config.internalServiceToken,
    config.opsToken,
    config.attempt.receiverToken,
    ...Object.values(config.notification.senderTokens),
    config.notification.webhook?.secret,
    ...Object.values(config.classifier.keys),
    config.auth.jwt.secret,
    ...config.auth.jwt.previousSecrets,
    ...Object.values(config.neighbours).map((neighbour) => neighbour?.token),
    passwordOf(config.mongodb.url),
    passwordOf(config.redis.url),
  ];
  return [...new Set(all.filter((secret): secret is string => secret !== undefined && secret !== ''))];
}

/** MongoDB URLs may name several hosts, which URL refuses. */
function passwordOf(url: string): string | undefined {
  const password = /^[a-z+]+:\/\/[^/?@]*?:([^/?@]*)@/i.exec(url)?.[1];
  return password === undefined ? undefined : decodeURIComponent(password);
}
