import { isIPv4 } from 'node:net';
import type { Secrets } from '#shared/kernel/secret.ts';
import type { ServiceName } from './readers.ts';
import type { GatewayTrust } from './variable.ts';
import type { VariableReader } from './variable-reader.ts';
import type { VariableName } from './variables.ts';

// Rules that concern several variables: secrets and addresses that together would open a process to strangers.

/** The settings of a process that decide who may use it. */
interface Settings {
  production: boolean;
  host: string;
  services: ReadonlySet<ServiceName>;
  gatewayTrust: GatewayTrust;
  isOpen: boolean;
  gatewayToken: Secrets | undefined;
}

/** Returns one sentence for each dangerous combination of settings that no process may start with. Shows no secret. */
export function trustFaults(from: VariableReader, config: Settings): string[] {
  if (!config.production) return strangersLetIn(from, config);
  return [...equalSecrets(from), ...missingGatewayToken(from, config), ...missingProxies(from, config)];
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

function missingGatewayToken(from: VariableReader, { gatewayToken, gatewayTrust }: Settings): string[] {
  if (!from.reads('GATEWAY_TOKEN') || gatewayTrust === 'network') return [];
  if (gatewayToken !== undefined && gatewayToken.length > 0) return [];
  const given = gatewayToken === undefined ? 'not set' : 'empty';
  return [`GATEWAY_TOKEN: ${given}, wanted a token, or GATEWAY_TRUST=network if only the gateway can reach the port`];
}

/** Without the addresses of its proxies, a front door counts the failed logins of a whole school under one address, that of the gateway. */
function missingProxies(from: VariableReader, { services }: Settings): string[] {
  if (!services.has('auth') || from.isSet('TRUSTED_PROXIES')) return [];
  return ['TRUSTED_PROXIES: not set, wanted the addresses of the gateway, or none if no proxy is before this process'];
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
export function openingOf(from: VariableReader, { host, gatewayToken }: Settings): string | undefined {
  // An empty HOST is a fault of its own.
  if (isLoopback(host) || host.trim() === '') return undefined;
  const { wellKnown } = from;
  const opening = [
    ...(wellKnown.size > 0 ? [`${[...wellKnown].join(', ')} has a development default`] : []),
    // A worker trusts no identity headers, so that it has no such token.
    ...(from.reads('GATEWAY_TOKEN') && gatewayToken === undefined ? ['GATEWAY_TOKEN is unset'] : []),
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

/** Returns true for a host that no other machine reaches. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'));
}
