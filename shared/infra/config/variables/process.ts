import { ENVIRONMENTS, LOG_LEVELS, SERVICE_NAMES, type Variable } from '#infra/config/variable.ts';

const PROCESS_GROUP = 'Process';

/** What a process serves, where, and how it stops. */
export const PROCESS = {
  NODE_ENV: {
    group: PROCESS_GROUP,
    kind: 'word',
    default: 'development',
    words: ENVIRONMENTS,
    description: '`production` refuses development defaults and protects `/metrics`.',
  },
  SERVICES: {
    group: PROCESS_GROUP,
    kind: 'list',
    default: SERVICE_NAMES.join(','),
    words: SERVICE_NAMES,
    description: 'Services whose front doors a `web` process opens, comma-separated.',
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
  LOG_LEVEL: {
    group: PROCESS_GROUP,
    kind: 'word',
    default: 'info',
    words: LOG_LEVELS,
    description: 'Least level logged.',
  },
  SHUTDOWN_TIMEOUT_MS: {
    group: PROCESS_GROUP,
    kind: 'integer',
    default: 20_000,
    min: 0,
    max: 600_000,
    description: 'How long requests and commands in flight may take to finish after SIGTERM.',
  },
  DRAIN_GRACE_MS: {
    group: PROCESS_GROUP,
    kind: 'integer',
    default: 1_000,
    min: 0,
    max: 60_000,
    description: 'How long a front door still accepts connections after `/readyz` has turned 503.',
  },
} as const satisfies Record<string, Variable>;
