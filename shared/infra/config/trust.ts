import { isIPv4 } from 'node:net';
import type { Secrets } from '#shared/kernel/secret.ts';
import type { GatewayTrust, ServiceName } from './variable.ts';
import type { VariableReader } from './variable-reader.ts';
import type { VariableName } from './variables.ts';

// Rules that concern several variables: which secrets and addresses together would open a process to strangers.

/** The settings of a process that decide who may use it. */
interface Settings {
  production: boolean;
  host: string;
  services: ReadonlySet<ServiceName>;
  gatewayTrust: GatewayTrust;
  isOpen: boolean;
  gatewayToken: Secrets | undefined;
  internalServiceToken: Secrets | undefined;
  opsToken: Secrets | undefined;
  opsReadToken: Secrets | undefined;
  attempt: { receiverToken: Secrets | undefined };
}

/** Returns one sentence for each dangerous combination of settings that no process may start with. Shows no secret. */
export function trustFaults(from: VariableReader, config: Settings): string[] {
  return config.production ? [...equalSecrets(from), ...missingGatewayToken(config)] : strangersLetIn(from, config);
}

/**
 * A service that holds one of two equal secrets could use the other one too. An earlier value opens as much as a current one, so it
 * counts. It may repeat the token that replaces its own while that is unset: callers had that token before the two were split.
 */
function equalSecrets({ secretsRead, chains }: VariableReader): string[] {
  const chainOf = (owner: VariableName) => chains.get(owner) ?? [owner];
  return [...Map.groupBy(secretsRead, ({ value }) => value).values()].flatMap((equal) => {
    const current = equal.filter(({ name, owner }) => name === owner);
    const isOneToken = equal.every(({ owner }) => current.every((one) => chainOf(owner).includes(one.owner)));
    const [first] = equal;
    const isOneFamily =
      first !== undefined &&
      chainOf(first.owner).some((name) => equal.every(({ owner }) => chainOf(owner).includes(name)));
    if (isOneToken && isOneFamily) return [];
    const names = new Set(equal.map(({ name }) => name));
    return [`${[...names].join(', ')}: set to the same value, wanted one of its own for each`];
  });
}

function missingGatewayToken({ gatewayToken, gatewayTrust }: Settings): string[] {
  if (gatewayTrust === 'network' || (gatewayToken !== undefined && gatewayToken.length > 0)) return [];
  const given = gatewayToken === undefined ? 'not set' : 'empty';
  return [`GATEWAY_TOKEN: ${given}, wanted a token, or GATEWAY_TRUST=network if only the gateway can reach the port`];
}

/**
 * Refuses an address that other machines reach while a reader of this repository knows what to send there. Otherwise a forgotten
 * NODE_ENV would make every caller an admin.
 */
function strangersLetIn(from: VariableReader, config: Settings): string[] {
  const open = config.isOpen ? undefined : openingOf(from, config);
  if (open === undefined) return [];
  return [
    `HOST: ${config.host} is reachable from other machines while ${open}, wanted 127.0.0.1, secrets of your own, or EXAMHALL_OPEN=1`,
  ];
}

/** Returns what lets strangers in, as a clause; undefined if other machines cannot reach the process or need a secret. */
function openingOf({ wellKnown }: VariableReader, { host, gatewayToken }: Settings): string | undefined {
  // An empty HOST is a fault of its own.
  if (isLoopback(host) || host.trim() === '') return undefined;
  const opening = [
    ...(wellKnown.size > 0 ? [`${[...wellKnown].join(', ')} has a development default`] : []),
    ...(gatewayToken === undefined ? ['GATEWAY_TOKEN is unset'] : []),
  ];
  return opening.length > 0 ? opening.join(' and ') : undefined;
}

/**
 * Returns true if only requests to a host of loopback are served. Outside production any caller on this machine can act as an ADMIN. A
 * page whose name resolves to 127.0.0.1 would be such a caller.
 */
export function servesLoopbackAlone({ production, host, isOpen }: Settings): boolean {
  return !production && !isOpen && isLoopback(host);
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'));
}

/** Warnings to log at the start: `warnings` in any process, `doorWarnings` in a front door. */
export interface Warnings {
  warnings: readonly string[];
  doorWarnings: readonly string[];
}

/** Returns warnings about settings that are allowed but probably unintended. In development, warns only about an open door. */
export function warningsOf(from: VariableReader, config: Settings): Warnings {
  if (config.production) return { warnings: processWarnings(from, config), doorWarnings: doorWarnings(from, config) };
  const open = openingOf(from, config);
  const opened = open === undefined ? [] : [`${open}: any machine that reaches ${config.host} can act as any user`];
  return { warnings: [], doorWarnings: opened };
}

function processWarnings(from: VariableReader, config: Settings): string[] {
  const warnings: string[] = [];
  if (config.opsToken === undefined) {
    const closed = config.opsReadToken === undefined ? ', and /metrics refuses every request' : '';
    warnings.push(`OPS_TOKEN is not set: only an ADMIN can use /v1/ops and the console${closed}`);
  }
  if (config.internalServiceToken === undefined) {
    warnings.push('INTERNAL_SERVICE_TOKEN is not set: calls to other services carry no token');
  }
  for (const name of from.plainHttp) {
    warnings.push(`${name} is plain http: tokens and personal data cross the network unencrypted`);
  }
  return warnings;
}

function doorWarnings(from: VariableReader, config: Settings): string[] {
  const warnings: string[] = [];
  if (config.gatewayToken === undefined) {
    warnings.push('GATEWAY_TOKEN is not set: every caller that reaches this port can set identity headers');
  }
  if (config.gatewayToken?.length === 0) {
    warnings.push('GATEWAY_TOKEN is empty: every route that trusts identity headers refuses every request');
  }
  if (config.services.has('attempt') && config.attempt.receiverToken === undefined) {
    warnings.push('no receiver token of the attempt service is set; every start, release and handoff is refused');
  }
  if (config.services.has('auth') && !from.isSet('TRUSTED_PROXIES')) {
    warnings.push(
      "TRUSTED_PROXIES is not set: login limits count all callers behind the gateway as the gateway's address",
    );
  }
  return warnings;
}
