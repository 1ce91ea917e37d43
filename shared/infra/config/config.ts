import type { Secrets } from '#shared/kernel/secret.ts';
import { isSecurityContact } from '#shared/operations/security-txt.ts';
import manifest from '../../../package.json' with { type: 'json' };
import { FILED, ownEnvironment, reads, withSecretFiles } from './environment.ts';
import type { ConfiguredAs, ProcessType, ReadingProcess, ServiceName } from './readers.ts';
import {
  type AttemptSettings,
  type AuthSettings,
  type ClassifierSettings,
  type Neighbours,
  type NotificationSettings,
  type Placed,
  readClassifier,
  readNeighbours,
  readNotification,
  readPlaced,
  readSenderTokens,
} from './settings.ts';
import { servesLoopbackAlone, trustFaults } from './trust.ts';
import { type VariableReader, variableReader } from './variable-reader.ts';
import type { VariableName } from './variables.ts';
import { warningsOf } from './warnings.ts';

/** The version of this software, as health, index and OpenAPI return it. */
export const VERSION: string = manifest.version;

/**
 * The configuration of a process. `...Ms` are milliseconds, `...Seconds` seconds. An undefined token is not configured, or is one that this
 * type of process does not read. Values that come from one variable each stand where the row of that variable puts them (`Placed`).
 */
export type Config = Placed & {
  production: boolean;
  /** Sentences to log at the start. */
  warnings: readonly string[];
  /** The services whose front doors the process opens; empty in every process but `web`. */
  services: ReadonlySet<ServiceName>;
  mongodb: { url: string; database: string };
  /** Empty in `release`, which has no Redis. */
  redis: { url: string };
  /** True if a request must name a host of loopback: outside production on loopback, unless `isOpen`. */
  loopbackOnly: boolean;
  // Each token below has its accepted values, the current one first.
  /** Undefined: not required. Empty: required, but no request can match it, so routes that trust identity headers are closed. */
  gatewayToken: Secrets | undefined;
  internalServiceToken: Secrets | undefined;
  opsToken: Secrets | undefined;
  opsReadToken: Secrets | undefined;
  neighbours: Neighbours;
  attempt: AttemptSettings;
  auth: AuthSettings;
  notification: NotificationSettings;
  classifier: ClassifierSettings;
  /** Addresses in `/.well-known/security.txt`; empty: not configured. */
  securityContacts: readonly string[];
};

/** Time limit of the transaction of a start, retries included. */
const START_BUDGET_MS = 5_000;

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

/** Reads the secrets that sign tokens. A missing one is a fault if the auth service is `served`. */
function readSigningSecrets(from: VariableReader, served: boolean) {
  return {
    secret: from.secret('AUTH_JWT_SECRET', served),
    previousSecrets: from.secrets('AUTH_JWT_PREVIOUS_SECRETS', served),
  };
}

function readSecurityContacts(from: VariableReader): string[] {
  const contacts = from.value('SECURITY_CONTACT')?.split(',') ?? [];
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
  const placed = readPlaced(from);
  const mongodbUrl = from.value('MONGODB_URL');
  // Both are used above, and checked here.
  from.value('SERVICES');
  from.value('CREDENTIALS_DIRECTORY');
  const { services } = process;
  const senderTokens = readSenderTokens(from);
  const neighbours = readNeighbours(from, {
    internal: internalServiceToken?.[0],
    notification: senderTokens['attempt-service']?.[0],
  });
  const config: Settings = {
    ...placed,
    production,
    services,
    mongodb: { url: mongodbUrl, database: from.value('MONGODB_DATABASE') ?? databaseOf(mongodbUrl) },
    redis: { url: from.value('REDIS_URL') },
    gatewayToken: from.tokens('GATEWAY_TOKEN') ?? (from.isSet('GATEWAY_TOKEN') ? [] : undefined),
    internalServiceToken,
    opsToken: from.tokens('OPS_TOKEN'),
    opsReadToken: from.tokens('OPS_READ_TOKEN'),
    neighbours,
    attempt: {
      ...placed.attempt,
      receiverToken: from.tokens('ATTEMPT_INTERNAL_SERVICE_TOKEN', 'INTERNAL_SERVICE_TOKEN'),
      startBudgetMs: START_BUDGET_MS,
    },
    auth: { ...placed.auth, jwt: { ...placed.auth.jwt, ...readSigningSecrets(from, services.has('auth')) } },
    notification: readNotification(from, placed.notification, senderTokens, {
      needsToken: production && services.has('notification'),
      hasProfile: neighbours.profile !== null,
    }),
    classifier: readClassifier(from, placed.classifier),
    securityContacts: readSecurityContacts(from),
  };
  // A token that several settings use is read several times, so remove duplicate faults.
  const faults = [...new Set([...fileFaults, ...from.faults, ...trustFaults(from, config)])];
  if (faults.length > 0) throw new ConfigError(faults);
  const loopbackOnly = servesLoopbackAlone(config);
  return { ...config, loopbackOnly, warnings: warningsOf(from, config, { process, foreign: own.foreign }) };
}

/** Returns the process of an environment: SERVICES decides which variables a front door reads. */
export function readingProcess(env: NodeJS.ProcessEnv, type: ConfiguredAs): ReadingProcess {
  const { value } = variableReader(env, false, () => true);
  const hasDoors = type === 'web' || type === 'cluster';
  return { type, services: hasDoors ? value('SERVICES') : new Set() };
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
