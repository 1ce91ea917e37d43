import { type ServiceName, WELL_KNOWN } from './variable.ts';

/** The parts of a configuration that may be odd. */
interface Settings {
  production: boolean;
  services: ReadonlySet<ServiceName>;
  host: string;
  gatewayToken: string | undefined;
  internalServiceToken: string | undefined;
  opsToken: string | undefined;
  attempt: { receiverToken: string | undefined };
  auth: { jwt: { secret: string } };
}

/** Sentences for the log of a start: `warnings` of any process, `doorWarnings` of a front door. */
export interface Warnings {
  warnings: readonly string[];
  doorWarnings: readonly string[];
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
