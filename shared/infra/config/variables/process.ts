import { ALL_BUT_RELEASE, EVERY_TYPE, SERVICE_NAMES } from '#infra/config/readers.ts';
import { days, flag, guarded, inGroup, integer, list, text, word } from '#infra/config/rows.ts';
import { ENVIRONMENTS, LOG_LEVELS } from '#infra/config/variable.ts';
import { DAY } from '#shared/kernel/time.ts';

/** The services of a process, its addresses, and its shutdown. */
export const PROCESS = inGroup('Process', {
  NODE_ENV: word(
    'environment',
    ENVIRONMENTS,
    'development',
    '`production` refuses weak and well-known secrets, requires `GATEWAY_TOKEN` of `web`, and protects `/metrics` with `OPS_READ_TOKEN`.',
  ),
  SERVICES: list(
    null,
    SERVICE_NAMES,
    SERVICE_NAMES.join(','),
    'Services whose front doors a `web` process opens, comma-separated. They decide which secrets this process reads and requires.',
  ),
  HOST: text('host', '127.0.0.1', 'Address to listen on.', { productionDefault: '0.0.0.0' }),
  PORT: integer('port', 3000, [0, 65_535], 'Port of the front doors; 0 = any free one.'),
  METRICS_PORT: integer(
    'metricsPort',
    null,
    [0, 65_535],
    'Port on which a worker answers `/healthz`, `/readyz` and `/metrics`; unset = it does not listen.',
  ),
  CREDENTIALS_DIRECTORY: text(
    null,
    null,
    'Folder of secret files: a file that has the name of a secret below contains its value, as if `NAME_FILE` named it. systemd sets it for `LoadCredential=`.',
  ),
  LOG_LEVEL: word('logLevel', LOG_LEVELS, 'info', 'Lowest level that is logged.'),
  API_DOCS: flag(
    'apiDocs',
    '1',
    '`1` serves the reference of the API at `/docs` of a `web` process. It needs the development package `swagger-ui-dist`; without it the process logs a warning and serves none.',
    { productionDefault: '0' },
  ),
  SHUTDOWN_TIMEOUT_MS: integer(
    'shutdown.timeoutMs',
    20_000,
    [0, 600_000],
    'Time for requests and commands in flight to finish after SIGTERM.',
  ),
  DRAIN_GRACE_MS: integer(
    'shutdown.drainGraceMs',
    1_000,
    [0, 60_000],
    'Time in which a front door still accepts connections after `/readyz` has turned 503.',
  ),
  SECURITY_CONTACT: text(
    null,
    'mailto:root@localhost',
    'Where vulnerabilities of this installation are reported: `mailto:`, `tel:` or https addresses, comma-separated, the preferred one first. Unset in production = `/.well-known/security.txt` is 404.',
    { productionDefault: null },
  ),
});

/** The addresses of MongoDB and Redis. */
export const STORES = inGroup('Stores', {
  MONGODB_URL: guarded(
    'mongodb',
    EVERY_TYPE,
    'Connection string of a replica set or sharded cluster. It must not weaken `w: majority, journal: true` or majority reads of the primary.',
  ),
  MONGODB_DATABASE: text(null, null, 'Database; unset = the path of `MONGODB_URL`, else `examhall`.'),
  REDIS_URL: guarded(
    'redis',
    ALL_BUT_RELEASE,
    'Redis for doorbells, replies and counters. It stores nothing that must not be lost. Required in production.',
    { default: 'redis://127.0.0.1:6379', productionDefault: null },
  ),
});

/** A hundred years. */
const MAX_DAYS = 36_500;

/** Polls, leases and retries of workers. */
export const WORKERS = inGroup('Workers', {
  WORKER_POLL_INTERVAL_MS: integer(
    'worker.pollIntervalMs',
    1_000,
    [10, 60_000],
    'Interval at which a worker polls for due commands; a lost ring delays a command by at most this.',
  ),
  WORKER_MAX_ATTEMPTS: integer(
    'worker.maxAttempts',
    10,
    [1, 1_000],
    'Attempts of a command before it is dead. Failures of MongoDB or the network spend no attempt.',
  ),
  WORKER_LEASE_MS: integer(
    'worker.leaseMs',
    10_000,
    [200, 600_000],
    'Lease of a claimed command; renewed while its handler runs.',
  ),
  WORKER_CONCURRENCY: integer(
    'worker.concurrency',
    48,
    [1, 256],
    'Commands of one queue that one worker process runs at once.',
  ),
  WORKER_BACKGROUND_WAITING: integer(
    'worker.backgroundWaiting',
    1_000,
    [1, 100_000],
    'Pieces of best-effort work that may wait in one worker process. Further pieces are dropped, and a handoff then waits out its backoff.',
  ),
  WORKER_RETRY_BASE_DELAY_MS: integer(
    'worker.retryBaseDelayMs',
    1_000,
    [1, 3_600_000],
    'First wait between two attempts of a command; doubles, at most one minute, with jitter.',
  ),
  UPKEEP_INTERVAL_MS: integer('upkeep.intervalMs', 10_000, [10, DAY], 'Pause between two sweeps of the upkeep actor.'),
});

/** The ages at which data expires. */
export const RETENTION = inGroup('Retention', {
  ATTEMPT_RETENTION_DAYS: days(
    'upkeep.retention.attemptsMs',
    null,
    [1, MAX_DAYS],
    'A graded attempt gets a pseudonym this long after its submit, as in an erasure; its scores stay. Unset = never.',
  ),
  NOTIFICATION_RETENTION_DAYS: days(
    'upkeep.retention.notificationsMs',
    null,
    [1, MAX_DAYS],
    'Notifications, their deliveries, suppressions and events are deleted at this age. Unset = never.',
  ),
  AI_JOB_RETENTION_DAYS: days(
    'upkeep.retention.jobsMs',
    null,
    [1, MAX_DAYS],
    'A classification job is deleted this long after its end. Unset = never.',
  ),
});

const MIB = 1_048_576;

/** Limits of requests. */
export const LIMITS = inGroup('Limits', {
  BODY_BUDGET_BYTES: integer(
    'limits.bodyBudgetBytes',
    256 * MIB,
    [8 * MIB, 64 * 1024 * MIB],
    'Total size of request bodies that a process holds in memory at once; at least one start request (8 MiB). One person or service has at most 1/32 of it. Callers with a mere access token, and callers without an identity, each have a further eighth.',
  ),
  MAX_CONNECTIONS: integer(
    'limits.maxConnections',
    32_768,
    [1_024, 1_000_000],
    'Connections that a `web` process holds at once. The oldest without a request makes room for a further one; otherwise that one is closed. Anonymous requests hold at most half.',
  ),
  REQUEST_HEAD_TIMEOUT_MS: integer(
    'limits.headTimeoutMs',
    10_000,
    [1, 120_000],
    'Time for the head of a request to arrive.',
  ),
  REQUEST_BODY_TIMEOUT_MS: integer(
    'limits.bodyTimeoutMs',
    20_000,
    [1, 600_000],
    'Time for the body of a request to arrive.',
  ),
});
