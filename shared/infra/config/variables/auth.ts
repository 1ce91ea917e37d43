import { DEVELOPMENT_JWT_SECRET, SELF_REGISTER_ROLES, type Variable } from '#infra/config/variable.ts';

const GROUP = 'Auth';

/** The auth service. */
export const AUTH = {
  AUTH_JWT_SECRET: {
    group: GROUP,
    kind: 'secret',
    default: DEVELOPMENT_JWT_SECRET,
    productionDefault: null,
    description:
      'What the keys of access and refresh tokens are derived from; in production at least 32 bytes, where the auth service is served. `npm start` generates one into `DATA_DIR`. Without a comma.',
  },
  AUTH_JWT_PREVIOUS_SECRETS: {
    group: GROUP,
    kind: 'secrets',
    default: null,
    description:
      'Earlier values of `AUTH_JWT_SECRET`, comma-separated: their tokens still count. Nothing is signed with them.',
  },
  AUTH_JWT_ISSUER: {
    group: GROUP,
    kind: 'text',
    default: 'examhall',
    description: 'Claim `iss`, written and demanded.',
  },
  AUTH_BCRYPT_COST: {
    group: GROUP,
    kind: 'integer',
    default: 12,
    min: 4,
    max: 15,
    description: 'Cost of password hashes; one more takes twice the time. Others are made anew at the next login.',
  },
  AUTH_REFRESH_BCRYPT_COST: {
    group: GROUP,
    kind: 'integer',
    default: 6,
    min: 4,
    max: 12,
    description: 'Cost of refresh-token hashes, which guard what nobody can guess.',
  },
  AUTH_PASSWORD_MIN_LENGTH: {
    group: GROUP,
    kind: 'integer',
    default: 8,
    min: 8,
    max: 64,
    description: 'Fewest characters of a new password. NIST SP 800-63B-4 asks for 15 where the password stands alone.',
  },
  AUTH_SELF_REGISTER_ROLES: {
    group: GROUP,
    kind: 'list',
    default: SELF_REGISTER_ROLES.join(','),
    words: SELF_REGISTER_ROLES,
    description: 'Roles that people may give themselves. ADMIN is never one: `examhall` makes admins.',
  },
  AUTH_DEFAULT_ORGANIZATION_ID: {
    group: GROUP,
    kind: 'id',
    default: 'local',
    description: 'Organization of everybody who registers.',
  },
  AUTH_DEFAULT_ORGANIZATION_NAME: { group: GROUP, kind: 'text', default: 'Local', description: 'Its name.' },
} as const satisfies Record<string, Variable>;
