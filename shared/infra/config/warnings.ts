import { readMongoLink } from '#infra/mongo/connect.ts';
import { readRedisUrl } from '#infra/redis/redis-url.ts';
import type { Secrets } from '#shared/kernel/secret.ts';
import { processInWords, type ReadingProcess, type ServiceName } from './readers.ts';
import { isLoopback, openingOf } from './trust.ts';
import type { GatewayTrust } from './variable.ts';
import type { VariableReader } from './variable-reader.ts';

/** The settings of a process that warnings are about. */
interface Settings {
  production: boolean;
  host: string;
  metricsPort: number | null;
  services: ReadonlySet<ServiceName>;
  gatewayTrust: GatewayTrust;
  isOpen: boolean;
  gatewayToken: Secrets | undefined;
  internalServiceToken: Secrets | undefined;
  opsToken: Secrets | undefined;
  opsReadToken: Secrets | undefined;
  mongodb: { url: string };
  redis: { url: string };
  attempt: { receiverToken: Secrets | undefined };
  auth: { bcrypt: { passwordCost: number }; trustedProxies: readonly string[] };
}

/** The process, and the secrets in its environment that it does not read. */
interface Holder {
  process: ReadingProcess;
  foreign: readonly string[];
}

/**
 * Returns warnings about settings that are allowed but probably unintended. Outside production,
 * warns only about an open door.
 */
export function warningsOf(from: VariableReader, config: Settings, holder: Holder): string[] {
  if (!config.production) return openDoor(from, config);
  return [
    ...foreignSecrets(holder),
    ...missingTokens(from, config),
    ...[...from.plainHttp].map(
      (name) => `${name} is plain http: tokens and personal data cross the network unencrypted`,
    ),
    ...storeLinks(config),
    ...doorWarnings(config),
  ];
}

function openDoor(from: VariableReader, config: Settings): string[] {
  const { host } = config;
  const open = openingOf(from, config);
  if (open !== undefined) return [`${open}: any machine that reaches ${host} can act as any user`];
  // A worker requires no token of its callers.
  if (isLoopback(host) || from.guessable.size === 0 || !from.reads('GATEWAY_TOKEN')) return [];
  return [
    `${[...from.guessable].join(', ')} can be guessed by any machine that reaches ${host}: production would refuse it`,
  ];
}

/** A process that holds a secret without need reveals it through every fault of its own. */
function foreignSecrets({ process, foreign }: Holder): string[] {
  return foreign.map(
    (name) => `${name} is set but ${processInWords(process)} does not use it: remove it from this process`,
  );
}

function missingTokens(from: VariableReader, config: Settings): string[] {
  const warnings: string[] = [];
  const isScrapable = config.opsToken !== undefined || config.opsReadToken !== undefined;
  if (from.reads('OPS_TOKEN') && config.opsToken === undefined) {
    const closed = isScrapable ? '' : ', and /metrics refuses every request';
    warnings.push(`OPS_TOKEN is not set: only an ADMIN can use /v1/ops and the console${closed}`);
  }
  if (!from.reads('OPS_TOKEN') && config.metricsPort !== null && !isScrapable && from.reads('OPS_READ_TOKEN')) {
    warnings.push('OPS_READ_TOKEN is not set: /metrics of METRICS_PORT refuses every request');
  }
  if (from.reads('INTERNAL_SERVICE_TOKEN') && config.internalServiceToken === undefined) {
    warnings.push('INTERNAL_SERVICE_TOKEN is not set: calls to other services carry no token');
  }
  return warnings;
}

function storeLinks({ mongodb, redis }: Settings): string[] {
  const { hosts, isEncrypted, hasLogin } = readMongoLink(mongodb.url);
  const ofMongo = linkWarnings('MONGODB_URL', { isRemote: !hosts.every(isLoopback), isEncrypted, hasLogin });
  if (redis.url === '') return ofMongo;
  const { host, path, tls, password } = readRedisUrl(redis.url);
  const isRemote = path === undefined && !isLoopback(host);
  return [...ofMongo, ...linkWarnings('REDIS_URL', { isRemote, isEncrypted: tls, hasLogin: password !== undefined })];
}

function linkWarnings(name: string, link: { isRemote: boolean; isEncrypted: boolean; hasLogin: boolean }): string[] {
  if (!link.isRemote) return [];
  return [
    ...(link.isEncrypted ? [] : [`${name} is without TLS: personal data crosses the network unencrypted`]),
    ...(link.hasLogin ? [] : [`${name} has no password: any machine that reaches the store can read and change it`]),
  ];
}

function doorWarnings(config: Settings): string[] {
  const { gatewayToken, services, attempt, auth } = config;
  if (services.size === 0) return [];
  const warnings: string[] = [];
  if (gatewayToken === undefined) {
    warnings.push('GATEWAY_TOKEN is not set: every caller that reaches this port can set identity headers');
  }
  if (gatewayToken?.length === 0) {
    warnings.push('GATEWAY_TOKEN is empty: every route that trusts identity headers refuses every request');
  }
  if (services.has('attempt') && attempt.receiverToken === undefined) {
    warnings.push('no receiver token of the attempt service is set; every start, release and handoff is refused');
  }
  if (auth.trustedProxies.some((network) => network.endsWith('/0'))) {
    warnings.push('TRUSTED_PROXIES contains every address: a client chooses the address under which it is counted');
  }
  if (services.has('auth') && auth.bcrypt.passwordCost < MIN_PASSWORD_COST) {
    warnings.push(`AUTH_BCRYPT_COST is below ${MIN_PASSWORD_COST}: stolen password hashes are guessed quickly`);
  }
  return warnings;
}

/** Lowest cost of password hashes by OWASP's Password Storage Cheat Sheet. */
const MIN_PASSWORD_COST = 10;
