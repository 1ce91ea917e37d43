/** What the table of environment variables says of each of them. */
export type Variable = IntegerVariable | WordVariable | TextVariable;

interface Described {
  group: string;
  description: string;
}

/** A whole number within bounds. `default: null` = off unless set. */
interface IntegerVariable extends Described {
  kind: 'integer';
  default: number | null;
  min: number;
  max: number;
}

/** One of a few words, or (`list`) some of them, comma-separated. */
interface WordVariable extends Described {
  kind: 'word' | 'list';
  default: string;
  words: readonly string[];
}

/**
 * `token`: a secret; empty = there is none. `neighbour`: base URL of a service; empty = it is not configured. `mongodb` and
 * `redis`: connection strings, never printed since they may hold a password. `text`: anything but empty. `id`: one that routes
 * and headers can carry. `secret`: what keys are derived from; `secrets` and `addresses` (IPs and CIDRs) are comma-separated
 * lists, empty = there are none. `webhook`: an https URL, or http to a loopback address; empty = there is none. `origins`: scheme,
 * host and port, comma-separated; empty = there are none.
 */
interface TextVariable extends Described {
  kind:
    | 'text'
    | 'id'
    | 'token'
    | 'secret'
    | 'secrets'
    | 'addresses'
    | 'neighbour'
    | 'webhook'
    | 'origins'
    | 'mongodb'
    | 'redis';
  default: string | null;
  /** Instead of `default` under NODE_ENV=production; null = it must be set there. */
  productionDefault?: string | null;
}

export const SERVICE_NAMES = ['attempt', 'auth', 'classifier', 'notification'] as const;
export type ServiceName = (typeof SERVICE_NAMES)[number];

/** Who may register without an operator. */
export const SELF_REGISTER_ROLES = ['STUDENT', 'TEACHER', 'PARENT'] as const;

export const ENVIRONMENTS = ['development', 'test', 'production'] as const;
export type Environment = (typeof ENVIRONMENTS)[number];

export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** What `npm start` gives a development machine, and what production refuses as too well known. */
export const DEVELOPMENT_DEFAULTS = {
  INTERNAL_SERVICE_TOKEN: 'dev-internal-token',
  OPS_TOKEN: 'dev-ops-token',
} as const;

/** Signs the tokens of a front door that is started by hand on a development machine; `npm start` generates its own instead. */
export const DEVELOPMENT_JWT_SECRET = 'dev-auth-jwt-secret-that-everybody-knows';

/** Every value that stands in this repository: never a secret. */
export const WELL_KNOWN: ReadonlySet<string> = new Set([
  ...Object.values(DEVELOPMENT_DEFAULTS),
  DEVELOPMENT_JWT_SECRET,
]);
