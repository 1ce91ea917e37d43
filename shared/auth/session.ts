import type { Rejection } from '#shared/kernel/errors.ts';
import { SECOND } from '#shared/kernel/time.ts';
import type { Account, Role } from './account.ts';

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

/** What the store knows of a presented refresh token; null = no such row. */
export interface PresentedRefresh {
  token: RefreshToken | null;
  session: Session | null;
  account: Account | null;
}

/**
 * `rotate`: the token may be exchanged, and this is whose it is. `reused`: refuse it like any other and end its session.
 */
type RefreshVerdict =
  | { kind: 'rotate'; token: RefreshToken; account: Account }
  | { kind: 'reused'; token: RefreshToken }
  | { kind: 'refused'; rejection: Rejection };

/**
 * Judges a refresh token at `now`. A used token is judged as used before the account's state is: it is no credential, and its
 * bearer learns nothing.
 */
export function judgeRefresh({ token, session, account }: PresentedRefresh, now: Date): RefreshVerdict {
  const invalid: RefreshVerdict = { kind: 'refused', rejection: { rejected: 'AUTH_INVALID_TOKEN' } };
  if (token === null || session === null || account === null) return invalid;
  if (token.sessionId !== session._id || token.accountId !== account._id) return invalid;
  if (token.expiresAt.getTime() <= now.getTime() || session.endedAt !== null) return invalid;
  if (account.status === 'DELETED') return invalid;
  if (token.consumedAt !== null) {
    return now.getTime() - token.consumedAt.getTime() > REUSE_GRACE_MS ? { kind: 'reused', token } : invalid;
  }
  if (account.status === 'SUSPENDED') return { kind: 'refused', rejection: { rejected: 'AUTH_ACCOUNT_DISABLED' } };
  return { kind: 'rotate', token, account };
}
