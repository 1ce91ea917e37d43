import type { Role } from '../../auth/account.ts';
import { type ClassifierSettings, readClassifier } from './classifier-settings.ts';
import { firstToken } from './first-token.ts';
import { type NotificationSettings, readNotification, readSenderTokens } from './notification-settings.ts';
import {
  ENVIRONMENTS,
  type Environment,
  LOG_LEVELS,
  type LogLevel,
  SELF_REGISTER_ROLES,
  SERVICE_NAMES,
  type ServiceName,
} from './variable.ts';
import { type VariableReader, variableReader } from './variable-reader.ts';
import type { NamesOf } from './variables.ts';
import { type Warnings, warningsOf } from './warnings.ts';

/** Another service: base URL without a final slash; without a token calls carry none. */
export interface Neighbour {
  url: string;
  token: string | undefined;
}

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
  /** null = not configured. */
  neighbours: {
    notification: Neighbour | null;
    profile: Neighbour | null;
    analytics: Neighbour | null;
    audit: Neighbour | null;
    questionBank: Neighbour | null;
    usage: Neighbour | null;
    wallet: Neighbour | null;
  };
  outboundTimeoutMs: number;
  attempt: {
    /** Demanded by start, release and handoff. */
    receiverToken: string | undefined;
    gradingWaitMs: number;
    overdueGraceSeconds: number;
    outbox: { maxAttempts: number; retryBaseMs: number };
    startBudgetMs: number;
  };
  auth: {
    /** Good for a signer where the auth service is served; elsewhere `secret` may be empty. */
    jwt: { secret: string; previousSecrets: readonly string[]; issuer: string };
    bcrypt: { passwordCost: number; tokenCost: number };
    /** Code points. */
    passwordMinLength: number;
    selfRegisterRoles: ReadonlySet<Role>;
    /** Everybody's who registers. */
    defaultOrganization: { id: string; name: string };
    /** IP addresses and networks in CIDR notation. */
    trustedProxies: readonly string[];
  };
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
    neighbours: {
      notification: neighbour(
        from,
        ['NOTIFICATION_SERVICE_URL', 'NOTIFICATION_SERVICE_BASE_URL'],
        senderTokens['attempt-service'],
      ),
      profile: neighbour(from, ['PROFILE_SERVICE_URL', 'PROFILE_SERVICE_BASE_URL'], internalServiceToken),
      analytics: neighbour(from, ['ANALYTICS_SERVICE_URL', 'ANALYTICS_SERVICE_BASE_URL'], internalServiceToken),
      audit: neighbour(from, ['AUDIT_SERVICE_URL', 'AUDIT_SERVICE_BASE_URL'], internalServiceToken),
      questionBank: neighbour(
        from,
        ['QUESTION_BANK_SERVICE_URL', 'QUESTION_BANK_SERVICE_BASE_URL'],
        internalServiceToken,
      ),
      usage: neighbour(from, ['USAGE_SERVICE_URL', 'USAGE_SERVICE_BASE_URL'], internalServiceToken),
      wallet: neighbour(from, ['WALLET_SERVICE_URL', 'WALLET_SERVICE_BASE_URL'], internalServiceToken),
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
    auth: {
      jwt: {
        secret: from.secret('AUTH_JWT_SECRET', services.has('auth')),
        previousSecrets: from.secrets('AUTH_JWT_PREVIOUS_SECRETS', services.has('auth')),
        issuer: from.text('AUTH_JWT_ISSUER'),
      },
      bcrypt: {
        passwordCost: from.integer('AUTH_BCRYPT_COST'),
        tokenCost: from.integer('AUTH_REFRESH_BCRYPT_COST'),
      },
      passwordMinLength: from.integer('AUTH_PASSWORD_MIN_LENGTH'),
      selfRegisterRoles: from.list('AUTH_SELF_REGISTER_ROLES', SELF_REGISTER_ROLES),
      defaultOrganization: {
        id: from.text('AUTH_DEFAULT_ORGANIZATION_ID'),
        name: from.text('AUTH_DEFAULT_ORGANIZATION_NAME'),
      },
      trustedProxies: from.addresses('TRUSTED_PROXIES'),
    },
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

function neighbour(
  from: VariableReader,
  [name, alias]: [NamesOf<'neighbour'>, NamesOf<'neighbour'>],
  token: string | undefined,
): Neighbour | null {
  const [first, second] = [from.neighbour(name), from.neighbour(alias)];
  const url = from.isSet(name) ? first : second;
  return url === null ? null : { url, token };
}

function databaseOf(mongodbUrl: string): string {
  const path = /^mongodb(?:\+srv)?:\/\/[^/?]*\/([^?]*)/.exec(mongodbUrl)?.[1];
  return path === undefined || path === '' ? 'examhall' : path;
}
