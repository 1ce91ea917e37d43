import type { Rejection } from '#shared/kernel/errors.ts';
import { SECOND } from '#shared/kernel/time.ts';
import { type Account, existing, type Role, whyAccountRefused } from './account.ts';

/** Why a session is over: its owner left, ended it from elsewhere, changed the password, a stolen token came back, an operator. */
export type SessionEnd = 'LOGOUT' | 'ENDED' | 'PASSWORD' | 'REUSE' | 'OPERATOR';

/** One login and all the refresh tokens that descend from it. */
export interface Session {
  /** The `sid` of its tokens, a UUIDv7. */
  _id: string;
  accountId: string;
  /** At most USER_AGENT_LENGTH characters. */
  userAgent: string | null;
  createdAt: Date;
  lastUsedAt: Date;
  /** That of its newest refresh token. */
  expiresAt: Date;
  endedAt: Date | null;
  endReason: SessionEnd | null;
}

export const USER_AGENT_LENGTH = 300;

/** The session that a token names, and the account that it belongs to. */
export interface Current {
  account: Account;
  session: Session;
}

/** True if tokens of this session are invalid, whatever they say: it was ended, or its account does not exist any more. */
export function isLost({ account, session }: Current): boolean {
  return session.endedAt !== null || existing(account) === null;
}

/** A refresh token as it is kept; never the token itself. */
export interface RefreshToken {
  /** Its `jti`, a UUIDv7. */
  _id: string;
  sessionId: string;
  accountId: string;
  /** bcrypt over the SHA-256 of the token. */
  hash: string;
  issuedAt: Date;
  expiresAt: Date;
  /** When it was exchanged for its successor; it stays until it expires, or its reuse could not be seen. */
  consumedAt: Date | null;
  successorId: string | null;
}

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

/**
 * Ms after its exchange in which a refresh token that comes again is only refused: two tabs, or a repeat after a lost reply.
 * Later it is in two hands, and nobody can tell which of them is the owner's.
 */
export const REUSE_GRACE_MS = 10 * SECOND;

/** The stored row of a presented refresh token, and the session and account that it belongs to. */
export interface PresentedRefresh extends Current {
  token: RefreshToken;
}

/**
 * `rotate`: the token may be exchanged, and this is whose it is. `reused`: refuse it like any other and end its session.
 */
type RefreshVerdict =
  | { kind: 'rotate'; token: RefreshToken; account: Account }
  | { kind: 'reused'; token: RefreshToken }
  | { kind: 'refused'; rejection: Rejection };

/**
 * Judges a stored refresh token at `now`. A used token is refused as used before the account's state is looked at: it is no
 * credential, and its bearer learns nothing.
 */
export function judgeRefresh(presented: PresentedRefresh, now: Date): RefreshVerdict {
  const { token, account } = presented;
  const invalid: RefreshVerdict = { kind: 'refused', rejection: { rejected: 'AUTH_INVALID_TOKEN' } };
  if (token.expiresAt.getTime() <= now.getTime() || isLost(presented)) return invalid;
  if (token.consumedAt !== null) {
    return now.getTime() - token.consumedAt.getTime() > REUSE_GRACE_MS ? { kind: 'reused', token } : invalid;
  }
  const rejection = whyAccountRefused(account);
  return rejection === null ? { kind: 'rotate', token, account } : { kind: 'refused', rejection };
}
