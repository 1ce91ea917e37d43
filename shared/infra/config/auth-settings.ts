import type { Role } from '#shared/auth/account.ts';
import { SELF_REGISTER_ROLES } from './variable.ts';
import type { VariableReader } from './variable-reader.ts';

export interface AuthSettings {
  /** Good for a signer where the auth service is served; elsewhere `secret` may be empty. */
  jwt: { secret: string; previousSecrets: readonly string[]; issuer: string };
  bcrypt: { passwordCost: number; tokenCost: number };
  /** Code points. */
  passwordMinLength: number;
  selfRegisterRoles: ReadonlySet<Role>;
  /** Everybody's who registers. */
  defaultOrganization: { id: string; name: string };
  /** IP addresses and networks in CIDR notation. */
  trustedProxies: readonly string[];
}

/** Without secrets only where the auth service is not `served`. */
export function readAuth(from: VariableReader, { served }: { served: boolean }): AuthSettings {
  return {
    jwt: {
      secret: from.secret('AUTH_JWT_SECRET', served),
      previousSecrets: from.secrets('AUTH_JWT_PREVIOUS_SECRETS', served),
      issuer: from.text('AUTH_JWT_ISSUER'),
    },
    bcrypt: {
      passwordCost: from.integer('AUTH_BCRYPT_COST'),
      tokenCost: from.integer('AUTH_REFRESH_BCRYPT_COST'),
    },
    passwordMinLength: from.integer('AUTH_PASSWORD_MIN_LENGTH'),
    selfRegisterRoles: from.list('AUTH_SELF_REGISTER_ROLES', SELF_REGISTER_ROLES),
    defaultOrganization: {
      id: from.text('AUTH_DEFAULT_ORGANIZATION_ID'),
      name: from.text('AUTH_DEFAULT_ORGANIZATION_NAME'),
    },
    trustedProxies: from.addresses('TRUSTED_PROXIES'),
  };
}
