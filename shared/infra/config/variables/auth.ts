import { days, guarded, inGroup, integer, list, text, textOf } from '#infra/config/rows.ts';
import { DEVELOPMENT_JWT_SECRET, SELF_REGISTER_ROLES } from '#infra/config/variable.ts';

/** The auth service. */
export const AUTH = inGroup('Auth', {
  // The tool finds the events of an address, which are stored under a key of it.
  // The tool finds the events of an address, which are stored under a key of it.
  AUTH_JWT_SECRET: guarded(
    'secret',
    ['web:auth', 'examhall'],
    'Secret that signs access tokens (HS256 with its bytes as the key), without a comma. The key of refresh tokens is derived from it. In production at least 32 bytes, if the auth service is served. `npm start` generates one into `DATA_DIR`.',
    { default: DEVELOPMENT_JWT_SECRET, productionDefault: null },
  ),
  AUTH_JWT_PREVIOUS_SECRETS: guarded(
    'secrets',
    ['web:auth'],
    'Earlier values of `AUTH_JWT_SECRET`, comma-separated. Their tokens are still valid; new tokens are not signed with them.',
  ),
  AUTH_JWT_ISSUER: text('auth.jwt.issuer', 'examhall', 'Claim `iss` of tokens, written and required.'),
  AUTH_SESSION_MAX_DAYS: days(
    'auth.sessionMaxMs',
    90,
    [1, 3_650],
    'Days after its login at which a session ends, however often it is refreshed. Holds for open sessions at once.',
  ),
  AUTH_BCRYPT_COST: integer(
    'auth.bcrypt.passwordCost',
    12,
    [4, 15],
    'Cost of password hashes; each step doubles the time. A hash of another cost is replaced at the next login.',
  ),
  AUTH_REFRESH_BCRYPT_COST: integer(
    'auth.bcrypt.tokenCost',
    6,
    [4, 12],
    'Cost of refresh-token hashes. It can be low, because refresh tokens are random and cannot be guessed.',
  ),
  AUTH_PASSWORD_MIN_LENGTH: integer(
    'auth.passwordMinLength',
    8,
    [8, 64],
    'Minimum length of a new password, in characters. NIST SP 800-63B-4 requires 15 if the password is the only factor.',
  ),
  AUTH_SELF_REGISTER_ROLES: list(
    'auth.selfRegisterRoles',
    SELF_REGISTER_ROLES,
    'STUDENT,PARENT',
    'Roles in which people may register themselves; empty closes registration. Never ADMIN: only the `examhall` command makes admins.',
    { mayBeEmpty: true },
  ),
  AUTH_DEFAULT_ORGANIZATION_ID: textOf(
    'id',
    'auth.defaultOrganization.id',
    'local',
    'Id of the organization of new accounts.',
  ),
  AUTH_DEFAULT_ORGANIZATION_NAME: text('auth.defaultOrganization.name', 'Local', 'Name of that organization.'),
});
