import type { Variable } from '#infra/config/variable.ts';

const TRUST_GROUP = 'Trust';

/** Who is believed. */
export const TRUST = {
  GATEWAY_TOKEN: {
    group: TRUST_GROUP,
    kind: 'token',
    default: null,
    description: 'When set, identity headers count only beside `X-Gateway-Token` with this value.',
  },
  INTERNAL_SERVICE_TOKEN: {
    group: TRUST_GROUP,
    kind: 'token',
    default: null,
    description: 'Token of calls between services, where no narrower one is set; carried by outgoing calls.',
  },
  ATTEMPT_INTERNAL_SERVICE_TOKEN: {
    group: TRUST_GROUP,
    kind: 'token',
    default: null,
    description: 'Token that start, release and handoff demand; unset = `INTERNAL_SERVICE_TOKEN`.',
  },
  OPS_TOKEN: {
    group: TRUST_GROUP,
    kind: 'token',
    default: null,
    description: 'Bearer token of `/metrics` in production.',
  },
  TRUSTED_PROXIES: {
    group: TRUST_GROUP,
    kind: 'addresses',
    default: null,
    description:
      'Addresses and networks (CIDR), comma-separated, whose `X-Forwarded-For` is believed: its last entry is then the client. Unset = nobody.',
  },
} as const satisfies Record<string, Variable>;
