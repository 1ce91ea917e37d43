import type { Variable } from '#infra/config/variable.ts';

const WORKERS_GROUP = 'Workers';
const DAY_MS = 86_400_000;

/** How actors run commands. */
export const WORKERS = {
  WORKER_POLL_INTERVAL_MS: {
    group: WORKERS_GROUP,
    kind: 'integer',
    default: 1_000,
    min: 10,
    max: 60_000,
    description: 'Poll of due commands: the longest delay that a lost doorbell can cause.',
  },
  WORKER_MAX_ATTEMPTS: {
    group: WORKERS_GROUP,
    kind: 'integer',
    default: 10,
    min: 1,
    max: 1_000,
    description: 'Attempts of a command before it is dead. Faults of MongoDB or the network spend none.',
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
  WORKER_RETRY_BASE_DELAY_MS: {
    group: WORKERS_GROUP,
    kind: 'integer',
    default: 1_000,
    min: 1,
    max: 3_600_000,
    description: 'First wait between two attempts of a command; doubles.',
  },
  UPKEEP_INTERVAL_MS: {
    group: WORKERS_GROUP,
    kind: 'integer',
    default: 10_000,
    min: 10,
    max: DAY_MS,
    description: 'Pause between two sweeps of the upkeep actor.',
  },
} as const satisfies Record<string, Variable>;
