import { ALL_BUT_RELEASE, EVERY_TYPE, SERVICE_NAMES } from '#infra/config/readers.ts';
import { ENVIRONMENTS, LOG_LEVELS, type Variable } from '#infra/config/variable.ts';
import { DAY } from '#shared/kernel/time.ts';

const PROCESS_GROUP = 'Process';

/** The services of a process, its addresses, and its shutdown. */
export const PROCESS = {
  NODE_ENV: {
    group: PROCESS_GROUP,
    kind: 'word',
    default: 'development',
    words: ENVIRONMENTS,
    description:
      '`production` refuses weak and well-known secrets, requires `GATEWAY_TOKEN` of `web`, and protects `/metrics` with `OPS_READ_TOKEN`.',
  },
  SERVICES: {
    group: PROCESS_GROUP,
    kind: 'list',
    default: SERVICE_NAMES.join(','),
    words: SERVICE_NAMES,
    description:
      'Services whose front doors a `web` process opens, comma-separated. They decide which secrets this process reads and requires.',
  },
  HOST: {
    group: PROCESS_GROUP,
    kind: 'text',
    default: '127.0.0.1',
    productionDefault: '0.0.0.0',
    description: 'Address to listen on.',
  },
  PORT: {
    group: PROCESS_GROUP,
    kind: 'integer',
    default: 3000,
    min: 0,
    max: 65_535,
    description: 'Port of the front doors; 0 = any free one.',
  },
  METRICS_PORT: {
    group: PROCESS_GROUP,
    kind: 'integer',
    default: null,
    min: 0,
    max: 65_535,
    description: 'Port on which a worker answers `/healthz`, `/readyz` and `/metrics`; unset = it does not listen.',
  },
  CREDENTIALS_DIRECTORY: {
    group: PROCESS_GROUP,
    kind: 'text',
    default: null,
    description:
      'Folder of secret files: a file that has the name of a secret below contains its value, as if `NAME_FILE` named it. systemd sets it for `LoadCredential=`.',
  },
  LOG_LEVEL: {
    group: PROCESS_GROUP,
    kind: 'word',
    default: 'info',
    words: LOG_LEVELS,
    description: 'Lowest level that is logged.',
  },
  API_DOCS: {
    group: PROCESS_GROUP,
    kind: 'word',
    default: '1',
    productionDefault: '0',
    words: ['0', '1'],
    description:
      '`1` serves the reference of the API at `/docs` of a `web` process. It needs the development package `swagger-ui-dist`; without it the process logs a warning and serves none.',
  },
  SHUTDOWN_TIMEOUT_MS: {
    group: PROCESS_GROUP,
    kind: 'integer',
    default: 20_000,
    min: 0,
    max: 600_000,
    description: 'Time for requests and commands in flight to finish after SIGTERM.',
  },
  DRAIN_GRACE_MS: {
    group: PROCESS_GROUP,
    kind: 'integer',
    default: 1_000,
    min: 0,
    max: 60_000,
    description: 'Time in which a front door still accepts connections after `/readyz` has turned 503.',
  },
  SECURITY_CONTACT: {
    group: PROCESS_GROUP,
    kind: 'text',
    default: 'mailto:root@localhost',
    productionDefault: null,
    description:
      'Where vulnerabilities of this installation are reported: `mailto:`, `tel:` or https addresses, comma-separated, the preferred one first. Unset in production = `/.well-known/security.txt` is 404.',
  },
} as const satisfies Record<string, Variable>;

const STORES_GROUP = 'Stores';

/** The addresses of MongoDB and Redis. */
export const STORES = {
  MONGODB_URL: {
    group: STORES_GROUP,
    kind: 'mongodb',
    default: null,
    readers: EVERY_TYPE,
    description:
      'Connection string of a replica set or sharded cluster. It must not weaken `w: majority, journal: true` or majority reads of the primary.',
  },
  MONGODB_DATABASE: {
    group: STORES_GROUP,
    kind: 'text',
    default: null,
    description: 'Database; unset = the path of `MONGODB_URL`, else `examhall`.',
  },
  REDIS_URL: {
    group: STORES_GROUP,
    kind: 'redis',
    default: 'redis://127.0.0.1:6379',
    productionDefault: null,
    readers: ALL_BUT_RELEASE,
    description:
      'Redis for doorbells, replies and counters. It stores nothing that must not be lost. Required in production.',
  },
} as const satisfies Record<string, Variable>;

const WORKERS_GROUP = 'Workers';
const RETENTION_GROUP = 'Retention';
/** A hundred years. */
const MAX_DAYS = 36_500;

/** Polls, leases and retries of workers. */
export const WORKERS = {
  WORKER_POLL_INTERVAL_MS: {
    group: WORKERS_GROUP,
    kind: 'integer',
    default: 1_000,
    min: 10,
    max: 60_000,
    description: 'Interval at which a worker polls for due commands; a lost ring delays a command by at most this.',
  },
  WORKER_MAX_ATTEMPTS: {
    group: WORKERS_GROUP,
    kind: 'integer',
    default: 10,
    min: 1,
    max: 1_000,
    description: 'Attempts of a command before it is dead. Failures of MongoDB or the network spend no attempt.',
  },
  WORKER_LEASE_MS: {
    group: WORKERS_GROUP,
    kind: 'integer',
    default: 10_000,
    min: 200,
    max: 600_000,
    description: 'Lease of a claimed command; renewed while its handler runs.',
  },
  WORKER_CONCURRENCY: {
    group: WORKERS_GROUP,
    kind: 'integer',
    default: 8,
    min: 1,
    max: 256,
    description: 'Commands of one queue that one worker process runs at once.',
  },
  WORKER_BACKGROUND_WAITING: {
    group: WORKERS_GROUP,
    kind: 'integer',
    default: 1_000,
    min: 1,
    max: 100_000,
    description:
      'Pieces of best-effort work that may wait in one worker process. Further pieces are dropped, and a handoff then waits out its backoff.',
  },
  WORKER_RETRY_BASE_DELAY_MS: {
    group: WORKERS_GROUP,
    kind: 'integer',
    default: 1_000,
    min: 1,
    max: 3_600_000,
    description: 'First wait between two attempts of a command; doubles, at most one minute, with jitter.',
  },
  UPKEEP_INTERVAL_MS: {
    group: WORKERS_GROUP,
    kind: 'integer',
    default: 10_000,
    min: 10,
    max: DAY,
    description: 'Pause between two sweeps of the upkeep actor.',
  },
  ATTEMPT_RETENTION_DAYS: {
    group: RETENTION_GROUP,
    kind: 'integer',
    default: null,
    min: 1,
    max: MAX_DAYS,
    description:
      'A graded attempt gets a pseudonym this long after its submit, as in an erasure; its scores stay. Unset = never.',
  },
  NOTIFICATION_RETENTION_DAYS: {
    group: RETENTION_GROUP,
    kind: 'integer',
    default: null,
    min: 1,
    max: MAX_DAYS,
    description: 'Notifications, their deliveries, suppressions and events are deleted at this age. Unset = never.',
  },
  AI_JOB_RETENTION_DAYS: {
    group: RETENTION_GROUP,
    kind: 'integer',
    default: null,
    min: 1,
    max: MAX_DAYS,
    description: 'A classification job is deleted this long after its end. Unset = never.',
  },
} as const satisfies Record<string, Variable>;
