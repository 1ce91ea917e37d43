import { inGroup, integer } from '#infra/config/rows.ts';

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
