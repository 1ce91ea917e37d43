import type { Role } from './account.ts';

/** What an access token says of its bearer; the signer adds when and by whom (`iat`, `exp`, `iss`). */
export interface AccessClaims {
  /** The account's id. */
  sub: string;
  type: 'access';
  role: Role;
  accountCode: string;
  fullName: string;
  email: string;
  defaultOrganizationId: string;
  /** The session's id. */
  sid: string;
  jti: string;
}

/** What a refresh token says: no more than what its record is found by. */
export interface RefreshClaims {
  sub: string;
  type: 'refresh';
  /** The id of the stored refresh token. */
  jti: string;
  sid: string;
}

/** Unix seconds of issue and expiry, as RFC 7519 writes them. */
export interface TokenTimes {
  iat: number;
  exp: number;
}

/** For which an access token is good. Short: an ended session is noticed where it is looked up, and nowhere else before that. */
export const ACCESS_SECONDS = 900;
/** For which a refresh token may be exchanged: 30 days. */
export const REFRESH_SECONDS = 30 * 24 * 3_600;
