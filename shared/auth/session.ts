import type { Rejection } from '#shared/kernel/errors.ts';
import { DAY, SECOND } from '#shared/kernel/time.ts';
import { type Account, existing, type Role, whyAccountRefused } from './account.ts';

/** Cause of a session's end. ENDED: its owner ended it from elsewhere. REUSE: a used refresh token was presented too late. */
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
  /** Expiry of its newest refresh token. The session may end before, see `sessionEndOf`. */
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

/**
 * Returns true if every token of this session is invalid: the session was ended or has reached its latest end, or its account
 * no longer exists.
 */
export function isLost({ account, session }: Current, now: Date, maxAgeMs: number): boolean {
  return session.endedAt !== null || latestEnd(session, maxAgeMs) <= now.getTime() || existing(account) === null;
}

/** Returns when a session ends if it is not refreshed: at `expiresAt` or at its latest end, whichever is first. */
export function sessionEndOf(session: Pick<Session, 'createdAt' | 'expiresAt'>, maxAgeMs: number): Date {
  return new Date(Math.min(session.expiresAt.getTime(), latestEnd(session, maxAgeMs)));
}

/**
 * Returns the latest end of a session, in Unix ms: `maxAgeMs` after its login, however often it is refreshed. The end is rounded
 * down to a whole second, as in tokens. It is computed at each use, so that a changed maximum also applies to stored sessions.
 */
function latestEnd({ createdAt }: Pick<Session, 'createdAt'>, maxAgeMs: number): number {
  return wholeSecond(createdAt.getTime() + maxAgeMs);
}

/** The stored row of a refresh token. It contains a hash, never the token itself. */
export interface RefreshToken {
  /** Its `jti`, a UUIDv7. */
  _id: string;
  sessionId: string;
  accountId: string;
  /** bcrypt over the SHA-256 of the token. */
  hash: string;
  issuedAt: Date;
  expiresAt: Date;
  /** Time of the exchange for a successor; null for an unused token. The row stays until it expires, so that reuse can be detected. */
  consumedAt: Date | null;
  successorId: string | null;
}

/** Claims of an access token, without `iat`, `exp` and `iss`. */
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

/** Claims of a refresh token: only the ids that are needed to find its row. */
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

/** Lifetime of an access token: short, because a service that does not read the session accepts the token until it expires. */
export const ACCESS_MS = 900 * SECOND;
/** Lifetime of a refresh token. */
const REFRESH_MS = 30 * DAY;

/** The times of a pair of tokens, in Unix ms. All are whole seconds, so that stored times equal those in the tokens. */
export interface PairTimes {
  issuedAt: number;
  accessExpiresAt: number;
  refreshExpiresAt: number;
}

/** Returns the times of the tokens that are issued to a session at `now`. No token outlives the latest end of its session. */
export function pairTimes(session: Pick<Session, 'createdAt'>, now: Date, maxAgeMs: number): PairTimes {
  const issuedAt = wholeSecond(now.getTime());
  const end = latestEnd(session, maxAgeMs);
  return {
    issuedAt,
    accessExpiresAt: Math.min(issuedAt + ACCESS_MS, end),
    refreshExpiresAt: Math.min(issuedAt + REFRESH_MS, end),
  };
}

function wholeSecond(ms: number): number {
  return Math.floor(ms / SECOND) * SECOND;
}

/**
 * Ms after its exchange during which a refresh token that is presented again is only refused. Two tabs or a retry after a lost
 * reply cause such a repeat. After that, the token is treated as stolen and its session ends.
 */
export const REUSE_GRACE_MS = 10 * SECOND;

/** The stored row of a presented refresh token, and the session and account that it belongs to. */
export interface PresentedRefresh extends Current {
  token: RefreshToken;
}

/** `rotate`: exchange the token. `reused`: refuse the token and end its session. `refused`: refuse the token only. */
type RefreshVerdict =
  | ({ kind: 'rotate' } & PresentedRefresh)
  | { kind: 'reused'; token: RefreshToken }
  | { kind: 'refused'; rejection: Rejection };

/**
 * Checks a stored refresh token at `now`; `maxAgeMs` is the maximum age of a session. A used token is refused before the
 * account's status is checked, so that its bearer does not learn whether the account is suspended.
 */
export function checkRefresh(presented: PresentedRefresh, now: Date, maxAgeMs: number): RefreshVerdict {
  const { token, session, account } = presented;
  const invalid: RefreshVerdict = { kind: 'refused', rejection: { rejected: 'AUTH_INVALID_TOKEN' } };
  if (token.expiresAt.getTime() <= now.getTime() || isLost(presented, now, maxAgeMs)) return invalid;
  if (token.consumedAt !== null) {
    return now.getTime() - token.consumedAt.getTime() > REUSE_GRACE_MS ? { kind: 'reused', token } : invalid;
  }
  const rejection = whyAccountRefused(account);
  return rejection === null ? { kind: 'rotate', token, session, account } : { kind: 'refused', rejection };
}
