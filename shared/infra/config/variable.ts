import type { Reader } from './readers.ts';

/** One row of the table of environment variables. */
export type Variable = Row & { readonly group: string };

/** The rows of some kinds. */
export type VariableOf<Kind extends Row['kind']> = Extract<Row, { readonly kind: Kind }>;

export type Row = IntegerVariable | WordVariable | TextVariable | GuardedVariable;

interface Described {
  readonly description: string;
  /** Where the value stands in the configuration, such as `worker.leaseMs`; null: a reader of its own takes it. */
  readonly into: string | null;
  /** The processes that read the variable; absent if all do. */
  readonly readers?: readonly Reader[];
}

/** A whole number from `min` to `max`. `default: null` means that the feature is off unless the variable is set. */
interface IntegerVariable extends Described {
  readonly kind: 'integer';
  readonly default: number | null;
  readonly min: number;
  readonly max: number;
  /** One unit of the variable in the unit of the configuration. */
  readonly factor: number;
}

/** One of a few words, or, for a `list`, some of them, comma-separated. */
interface WordVariable extends Described {
  readonly kind: 'word' | 'list';
  readonly default: string;
  /** Replaces `default` if NODE_ENV is production. */
  readonly productionDefault?: string;
  readonly words: readonly string[];
  /** True if a `list` may be set to the empty string, which means no word at all. */
  readonly mayBeEmpty?: true;
}

/**
 * A text of one of these kinds:
 * - `text`: any text that is not empty.
 * - `model`: the name of a model, which replies and usage events repeat.
 * - `id`: an id that fits into routes and headers.
 * - `addresses`: IP addresses and CIDR networks, comma-separated; may be empty. `none` is an empty list too.
 * - `names`: names of services, comma-separated, at least one.
 * - `hosts`: public host names, comma-separated, at least one. A leading `*.` means every name below.
 */
interface TextVariable extends Described {
  readonly kind: 'text' | 'model' | 'id' | 'addresses' | 'names' | 'hosts';
  readonly default: string | null;
  /** Replaces `default` if NODE_ENV is production; null leaves it unset. */
  readonly productionDefault?: string | null;
}

/**
 * A secret, or an address to which processes send personal data or secrets. It names its readers: no other process takes it into its
 * configuration, so that a fault in that process reveals nothing of it. The kinds:
 * - `token`: a secret that services of this installation share; empty means "no token".
 * - `tokens`: earlier values of a token, comma-separated; may be empty.
 * - `key`: a secret that a provider issued; empty means "no key".
 * - `secret`, `secrets`: keys are derived from them. `secrets` is a comma-separated list, which may be empty.
 * - `neighbour`: base URL of a service; empty means "not configured".
 * - `webhook`: an https URL, or http to a loopback address; empty means "not configured".
 * - `webhook-secret`: `whsec_` and base64; empty means "no secret".
 * - `origins`: scheme, host and port, comma-separated; may be empty.
 * - `mongodb`, `redis`: connection strings. They are never printed, because they may contain a password.
 */
interface GuardedVariable extends Described {
  readonly readers: readonly Reader[];
  readonly kind:
    | 'token'
    | 'tokens'
    | 'key'
    | 'secret'
    | 'secrets'
    | 'neighbour'
    | 'webhook'
    | 'webhook-secret'
    | 'origins'
    | 'mongodb'
    | 'redis';
  readonly default: string | null;
  /** Replaces `default` if NODE_ENV is production; null means that the variable must be set there. */
  readonly productionDefault?: string | null;
}

/** Roles that `AUTH_SELF_REGISTER_ROLES` may contain. */
export const SELF_REGISTER_ROLES = ['STUDENT', 'TEACHER', 'PARENT'] as const;

export const ENVIRONMENTS = ['development', 'test', 'production'] as const;
export type Environment = (typeof ENVIRONMENTS)[number];

/** Proofs that the gateway wrote the identity headers: its token, or a network that lets only the gateway in. */
export const GATEWAY_TRUSTS = ['token', 'network'] as const;
export type GatewayTrust = (typeof GATEWAY_TRUSTS)[number];

export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Tokens that `npm start` sets on a development machine. Production refuses them, because they are public. */
export const DEVELOPMENT_DEFAULTS = {
  INTERNAL_SERVICE_TOKEN: 'dev-internal-token',
  OPS_TOKEN: 'dev-ops-token',
} as const;

/** Signs the tokens of a front door that is started by hand on a development machine. `npm start` generates a secret instead. */
export const DEVELOPMENT_JWT_SECRET = 'dev-auth-jwt-secret-that-everybody-knows';

/** Every secret value that this repository contains, and that is therefore public. */
export const WELL_KNOWN: ReadonlySet<string> = new Set([
  ...Object.values(DEVELOPMENT_DEFAULTS),
  DEVELOPMENT_JWT_SECRET,
]);
