import { ENVIRONMENTS, LOG_LEVELS, SERVICE_NAMES, type Variable } from './variable.ts';

const PROCESS = 'Process';
const STORES = 'Stores';
const TRUST = 'Trust';
const NEIGHBOURS = 'Neighbours';
const ATTEMPTS = 'Attempts';
const WORKERS = 'Workers';
const LIMITS = 'Limits';

const DAY_MS = 86_400_000;
const MIB = 1_048_576;

/**
 * Every environment variable that a process reads, in one table: validation, `docs/configuration.md` and `.env.example`
 * come from it. A variable set to the empty string counts as set.
 */
export const VARIABLES = {
  NODE_ENV: {
    group: PROCESS,
    kind: 'word',
    default: 'development',
    words: ENVIRONMENTS,
    description: '`production` refuses development defaults and protects `/metrics`.',
  },
  SERVICES: {
    group: PROCESS,
    kind: 'list',
    default: SERVICE_NAMES.join(','),
    words: SERVICE_NAMES,
    description: 'Services whose front doors a `web` process opens, comma-separated.',
  },
  HOST: {
    group: PROCESS,
    kind: 'text',
    default: '127.0.0.1',
    productionDefault: '0.0.0.0',
    description: 'Address to listen on.',
  },
  PORT: {
    group: PROCESS,
    kind: 'integer',
    default: 3000,
    min: 0,
    max: 65_535,
    description: 'Port of the front doors; 0 = any free one.',
  },
  METRICS_PORT: {
    group: PROCESS,
    kind: 'integer',
    default: null,
    min: 0,
    max: 65_535,
    description: 'Port on which a worker answers `/healthz`, `/readyz` and `/metrics`; unset = it does not listen.',
  },
  LOG_LEVEL: { group: PROCESS, kind: 'word', default: 'info', words: LOG_LEVELS, description: 'Least level logged.' },
  SHUTDOWN_TIMEOUT_MS: {
    group: PROCESS,
    kind: 'integer',
    default: 20_000,
    min: 0,
    max: 600_000,
    description: 'How long requests and commands in flight may take to finish after SIGTERM.',
  },
  DRAIN_GRACE_MS: {
    group: PROCESS,
    kind: 'integer',
    default: 1_000,
    min: 0,
    max: 60_000,
    description: 'How long a front door still accepts connections after `/readyz` has turned 503.',
  },

  MONGODB_URL: {
    group: STORES,
    kind: 'mongodb',
    default: null,
    description:
      'Connection string of a replica set. Required. One that weakens `w: majority, journal: true` or reads elsewhere than at the primary is refused.',
  },
  MONGODB_DATABASE: {
    group: STORES,
    kind: 'text',
    default: null,
    description: 'Database; unset = the one that the path of `MONGODB_URL` names, else `examhall`.',
  },
  REDIS_URL: {
    group: STORES,
    kind: 'redis',
    default: 'redis://127.0.0.1:6379',
    productionDefault: null,
    description: 'The doorbell. Holds nothing that cannot be lost. Required in production.',
  },

  GATEWAY_TOKEN: {
    group: TRUST,
    kind: 'token',
    default: null,
    description: 'When set, identity headers count only beside `X-Gateway-Token` with this value.',
  },
  INTERNAL_SERVICE_TOKEN: {
    group: TRUST,
    kind: 'token',
    default: null,
    description: 'Token of calls between services, where no narrower one is set; carried by outgoing calls.',
  },
  ATTEMPT_INTERNAL_SERVICE_TOKEN: {
    group: TRUST,
    kind: 'token',
    default: null,
    description: 'Token that start, release and handoff demand; unset = `INTERNAL_SERVICE_TOKEN`.',
  },
  OPS_TOKEN: {
    group: TRUST,
    kind: 'token',
    default: null,
    description: 'Bearer token of `/metrics` in production.',
  },

  NOTIFICATION_SERVICE_URL: {
    group: NEIGHBOURS,
    kind: 'neighbour',
    default: null,
    description: 'Notification service; unset = `NOTIFICATION_SERVICE_BASE_URL`. Without either, notices wait.',
  },
  NOTIFICATION_SERVICE_BASE_URL: {
    group: NEIGHBOURS,
    kind: 'neighbour',
    default: null,
    description: 'Second name of `NOTIFICATION_SERVICE_URL`.',
  },
  NOTIFICATION_TOKEN_ATTEMPT_SERVICE: {
    group: NEIGHBOURS,
    kind: 'token',
    default: null,
    description: 'Token of the attempt service at the notification service; unset = the next one.',
  },
  NOTIFICATION_INTERNAL_SERVICE_TOKEN: {
    group: NEIGHBOURS,
    kind: 'token',
    default: null,
    description: 'Token of any sender at the notification service; unset = `INTERNAL_SERVICE_TOKEN`.',
  },
  PROFILE_SERVICE_URL: {
    group: NEIGHBOURS,
    kind: 'neighbour',
    default: null,
    description:
      'Profile service, which knows the parents; unset = `PROFILE_SERVICE_BASE_URL`. Without either, notices to parents wait.',
  },
  PROFILE_SERVICE_BASE_URL: {
    group: NEIGHBOURS,
    kind: 'neighbour',
    default: null,
    description: 'Second name of `PROFILE_SERVICE_URL`.',
  },
  ANALYTICS_SERVICE_URL: {
    group: NEIGHBOURS,
    kind: 'neighbour',
    default: null,
    description: 'Analytics service; unset = `ANALYTICS_SERVICE_BASE_URL`. Without either, no analytics are sent.',
  },
  ANALYTICS_SERVICE_BASE_URL: {
    group: NEIGHBOURS,
    kind: 'neighbour',
    default: null,
    description: 'Second name of `ANALYTICS_SERVICE_URL`.',
  },
  OUTBOUND_TIMEOUT_MS: {
    group: NEIGHBOURS,
    kind: 'integer',
    default: 5_000,
    min: 1,
    max: 120_000,
    description: 'Bound of one call to another service.',
  },

  ATTEMPT_GRADING_WAIT_MS: {
    group: ATTEMPTS,
    kind: 'integer',
    default: 10_000,
    min: 0,
    max: 60_000,
    description: 'How long submit, handoff and release wait for the worker before they answer 202.',
  },
  ATTEMPT_OVERDUE_GRACE_SECONDS: {
    group: ATTEMPTS,
    kind: 'integer',
    default: 300,
    min: 0,
    max: 604_800,
    description: 'How long after its deadline an attempt nobody submits is submitted as TIMEOUT.',
  },
  ATTEMPT_OUTBOX_MAX_ATTEMPTS: {
    group: ATTEMPTS,
    kind: 'integer',
    default: 30,
    min: 1,
    max: 1_000,
    description: 'Deliveries of one notice that may fail before it is DEAD.',
  },
  ATTEMPT_OUTBOX_RETRY_BASE_MS: {
    group: ATTEMPTS,
    kind: 'integer',
    default: 5_000,
    min: 1,
    max: 3_600_000,
    description: 'First wait between two deliveries of a notice; doubles, at most one hour.',
  },
  START_BUDGET_MS: {
    group: ATTEMPTS,
    kind: 'integer',
    default: 5_000,
    min: 100,
    max: 60_000,
    description: 'Total bound of the transaction of a start, its retries included.',
  },

  WORKER_POLL_INTERVAL_MS: {
    group: WORKERS,
    kind: 'integer',
    default: 1_000,
    min: 10,
    max: 60_000,
    description: 'Poll of due commands: the longest delay that a lost doorbell can cause.',
  },
  WORKER_MAX_ATTEMPTS: {
    group: WORKERS,
    kind: 'integer',
    default: 10,
    min: 1,
    max: 1_000,
    description: 'Attempts of a command before it is dead. Faults of MongoDB or the network spend none.',
  },
  WORKER_LEASE_MS: {
    group: WORKERS,
    kind: 'integer',
    default: 10_000,
    min: 200,
    max: 600_000,
    description: 'Lease of a claimed command; renewed while its handler runs.',
  },
  WORKER_CONCURRENCY: {
    group: WORKERS,
    kind: 'integer',
    default: 8,
    min: 1,
    max: 256,
    description: 'Commands that one worker process runs at once.',
  },
  WORKER_RETRY_BASE_DELAY_MS: {
    group: WORKERS,
    kind: 'integer',
    default: 1_000,
    min: 1,
    max: 3_600_000,
    description: 'First wait between two attempts of a command; doubles.',
  },
  UPKEEP_INTERVAL_MS: {
    group: WORKERS,
    kind: 'integer',
    default: 10_000,
    min: 10,
    max: DAY_MS,
    description: 'Pause between two sweeps of the upkeep actor.',
  },

  BODY_BUDGET_BYTES: {
    group: LIMITS,
    kind: 'integer',
    default: 256 * MIB,
    min: 8 * MIB,
    max: 64 * 1024 * MIB,
    description: 'Bytes of request bodies that a process holds at once; at least one start request (8 MiB).',
  },
  REQUEST_HEAD_TIMEOUT_MS: {
    group: LIMITS,
    kind: 'integer',
    default: 10_000,
    min: 1,
    max: 120_000,
    description: 'Time for the head of a request to arrive.',
  },
  REQUEST_BODY_TIMEOUT_MS: {
    group: LIMITS,
    kind: 'integer',
    default: 20_000,
    min: 1,
    max: 600_000,
    description: 'Time for the body of a request to arrive.',
  },
} as const satisfies Record<string, Variable>;

export type VariableName = keyof typeof VARIABLES;

/** The names of the variables of one kind. */
export type NamesOf<Kind extends Variable['kind']> = {
  [Name in VariableName]: (typeof VARIABLES)[Name]['kind'] extends Kind ? Name : never;
}[VariableName];
