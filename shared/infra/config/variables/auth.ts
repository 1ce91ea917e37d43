import { DEVELOPMENT_JWT_SECRET, SELF_REGISTER_ROLES, type Variable } from '#infra/config/variable.ts';

const GROUP = 'Auth';

/** The auth service. */
export const AUTH = {
  AUTH_JWT_SECRET: {
    group: GROUP,
    kind: 'secret',
    default: DEVELOPMENT_JWT_SECRET,
    productionDefault: null,
    // The tool finds the events of an address, which are stored under a key of it.
    readers: ['web:auth', 'examhall'],
    description:
      'Secret that signs access tokens (HS256 with its bytes as the key), without a comma. The key of refresh tokens is derived from it. In production at least 32 bytes, if the auth service is served. `npm start` generates one into `DATA_DIR`.',
  },
  AUTH_JWT_PREVIOUS_SECRETS: {
    group: GROUP,
    kind: 'secrets',
    default: null,
    readers: ['web:auth'],
    description:
      'Earlier values of `AUTH_JWT_SECRET`, comma-separated. Their tokens are still valid; new tokens are not signed with them.',
  },
  AUTH_JWT_ISSUER: {
    group: GROUP,
    kind: 'text',
    default: 'examhall',
    description: 'Claim `iss` of tokens, written and required.',
  },
  AUTH_SESSION_MAX_DAYS: {
    group: GROUP,
    kind: 'integer',
    default: 90,
    min: 1,
    max: 3_650,
    description:
      'Days after its login at which a session ends, however often it is refreshed. Holds for open sessions at once.',
  },
  AUTH_BCRYPT_COST: {
    group: GROUP,
    kind: 'integer',
    default: 12,
    min: 4,
    max: 15,
    description:
      'Cost of password hashes; each step doubles the time. A hash of another cost is replaced at the next login.',
  },
  AUTH_REFRESH_BCRYPT_COST: {
    group: GROUP,
    kind: 'integer',
    default: 6,
    min: 4,
    max: 12,
    description:
      'Cost of refresh-token hashes. It can be low, because refresh tokens are random and cannot be guessed.',
  },
  AUTH_PASSWORD_MIN_LENGTH: {
    group: GROUP,
    kind: 'integer',
    default: 8,
    min: 8,
    max: 64,
    description:
      'Minimum length of a new password, in characters. NIST SP 800-63B-4 requires 15 if the password is the only factor.',
  },
  AUTH_SELF_REGISTER_ROLES: {
    group: GROUP,
    kind: 'list',
    default: 'STUDENT,PARENT',
    words: SELF_REGISTER_ROLES,
    mayBeEmpty: true,
    description:
      'Roles in which people may register themselves; empty closes registration. Never ADMIN: only the `examhall` command makes admins.',
  },
  AUTH_DEFAULT_ORGANIZATION_ID: {
    group: GROUP,
    kind: 'id',
    default: 'local',
    description: 'Id of the organization of new accounts.',
  },
  AUTH_DEFAULT_ORGANIZATION_NAME: {
    group: GROUP,
    kind: 'text',
    default: 'Local',
    description: 'Name of that organization.',
  },
} as const satisfies Record<string, Variable>;
