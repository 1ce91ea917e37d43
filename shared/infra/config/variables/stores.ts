import type { Variable } from '#infra/config/variable.ts';

const STORES_GROUP = 'Stores';

/** Where MongoDB and Redis are. */
export const STORES = {
  MONGODB_URL: {
    group: STORES_GROUP,
    kind: 'mongodb',
    default: null,
    description:
      'Connection string of a replica set. Required. One that weakens `w: majority, journal: true` or reads elsewhere than at the primary is refused.',
  },
  MONGODB_DATABASE: {
    group: STORES_GROUP,
    kind: 'text',
    default: null,
    description: 'Database; unset = the one that the path of `MONGODB_URL` names, else `examhall`.',
  },
  REDIS_URL: {
    group: STORES_GROUP,
    kind: 'redis',
    default: 'redis://127.0.0.1:6379',
    productionDefault: null,
    description: 'The doorbell. Holds nothing that cannot be lost. Required in production.',
  },
} as const satisfies Record<string, Variable>;
