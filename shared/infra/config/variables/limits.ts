import type { Variable } from '#infra/config/variable.ts';

const LIMITS_GROUP = 'Limits';
const MIB = 1_048_576;

/** Limits of requests. */
export const LIMITS = {
  BODY_BUDGET_BYTES: {
    group: LIMITS_GROUP,
    kind: 'integer',
    default: 256 * MIB,
    min: 8 * MIB,
    max: 64 * 1024 * MIB,
    description:
      'Total size of request bodies that a process holds in memory at once; at least one start request (8 MiB). One person or service has at most 1/32 of it. Callers with a mere access token, and callers without an identity, each have a further eighth.',
  },
  MAX_CONNECTIONS: {
    group: LIMITS_GROUP,
    kind: 'integer',
    default: 32_768,
    min: 1_024,
    max: 1_000_000,
    description:
      'Connections that a `web` process holds at once. The oldest without a request makes room for a further one; otherwise that one is closed. Anonymous requests hold at most half.',
  },
  REQUEST_HEAD_TIMEOUT_MS: {
    group: LIMITS_GROUP,
    kind: 'integer',
    default: 10_000,
    min: 1,
    max: 120_000,
    description: 'Time for the head of a request to arrive.',
  },
  REQUEST_BODY_TIMEOUT_MS: {
    group: LIMITS_GROUP,
    kind: 'integer',
    default: 20_000,
    min: 1,
    max: 600_000,
    description: 'Time for the body of a request to arrive.',
  },
} as const satisfies Record<string, Variable>;
