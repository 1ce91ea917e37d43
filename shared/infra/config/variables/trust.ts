import { CALLING_WORKERS, DOORS_OF_SERVICES, type Reader, SCRAPED } from '#infra/config/readers.ts';
import { earlierValuesOf, GATEWAY_TRUSTS, type Variable } from '#infra/config/variable.ts';

const GROUP = 'Trust';
const DOOR: readonly Reader[] = ['web'];
const DOOR_OF_ATTEMPTS: readonly Reader[] = ['web:attempt'];

/** The tokens and proxies that a process trusts. */
export const TRUST = {
  GATEWAY_TOKEN: {
    group: GROUP,
    kind: 'token',
    default: null,
    readers: DOOR,
    description:
      'If set, identity headers are trusted only together with `X-Gateway-Token` of this value. Required in production, unless `GATEWAY_TRUST=network`.',
  },
  GATEWAY_TOKEN_PREVIOUS: earlierValuesOf('GATEWAY_TOKEN', GROUP, DOOR),
  GATEWAY_TRUST: {
    group: GROUP,
    kind: 'word',
    default: 'token',
    words: GATEWAY_TRUSTS,
    description:
      '`network` states that only the gateway can reach the port: production then starts without `GATEWAY_TOKEN`.',
  },
  EXAMHALL_OPEN: {
    group: GROUP,
    kind: 'word',
    default: '0',
    words: ['0', '1'],
    description:
      '`1` allows a process outside production to listen for other machines with well-known tokens or without `GATEWAY_TOKEN`. Any of them can then act as any user. A process on loopback then also serves requests to other hosts.',
  },
  INTERNAL_SERVICE_TOKEN: {
    group: GROUP,
    kind: 'token',
    default: null,
    readers: [...DOORS_OF_SERVICES, ...CALLING_WORKERS],
    description: 'Token of calls between services, if no more specific one is set. Outgoing calls send it.',
  },
  INTERNAL_SERVICE_TOKEN_PREVIOUS: earlierValuesOf('INTERNAL_SERVICE_TOKEN', GROUP, DOORS_OF_SERVICES),
  ATTEMPT_INTERNAL_SERVICE_TOKEN: {
    group: GROUP,
    kind: 'token',
    default: null,
    readers: DOOR_OF_ATTEMPTS,
    description: 'Token that start, release and handoff require; unset = `INTERNAL_SERVICE_TOKEN`.',
  },
  ATTEMPT_INTERNAL_SERVICE_TOKEN_PREVIOUS: earlierValuesOf('ATTEMPT_INTERNAL_SERVICE_TOKEN', GROUP, DOOR_OF_ATTEMPTS),
  OPS_TOKEN: {
    group: GROUP,
    kind: 'token',
    default: null,
    readers: DOOR,
    description:
      'Token of operators: every route of `/v1/ops`, acts on dead letters included, the console, and `/metrics` of `web`. Monitoring takes `OPS_READ_TOKEN`.',
  },
  OPS_TOKEN_PREVIOUS: earlierValuesOf('OPS_TOKEN', GROUP, DOOR),
  OPS_READ_TOKEN: {
    group: GROUP,
    kind: 'token',
    default: null,
    readers: SCRAPED,
    description:
      'Token of monitoring and autoscalers: `/metrics`, `GET /v1/ops/status`, `/v1/ops/queues` and `/v1/ops/workers`, and nothing else.',
  },
  OPS_READ_TOKEN_PREVIOUS: earlierValuesOf('OPS_READ_TOKEN', GROUP, SCRAPED),
  TRUSTED_PROXIES: {
    group: GROUP,
    kind: 'addresses',
    default: null,
    description:
      'Addresses and networks (CIDR), comma-separated, of the proxies before this process. The client is the last hop of `X-Forwarded-For` outside them. `none` = no proxy, as outside production if unset. In production a `web` process that serves the auth service requires it.',
  },
} as const satisfies Record<string, Variable>;
