import type { Account } from '../../shared/auth/account.ts';
import { ACCESS_SECONDS, type AccessClaims, REFRESH_SECONDS } from '../../shared/auth/claims.ts';
import { type RefreshToken, type Session, USER_AGENT_LENGTH } from '../../shared/auth/session.ts';
import { userView } from '../../shared/auth/user-view.ts';
import type { SessionEnvelope } from '../../shared/generated/auth.ts';
import { SECOND } from '../../shared/kernel/clock.ts';
import { newId } from '../../shared/kernel/ids.ts';
import type { AuthDeps } from './deps.ts';

/** Tokens that have been made and not yet stored: what the caller gets, and what is kept of it. */
export interface NewTokens {
  stored: RefreshToken;
  envelope: SessionEnvelope;
}

/** A session with its first tokens; neither is stored yet. */
export async function newSession(
  deps: AuthDeps,
  account: Account,
  userAgent: string | undefined,
): Promise<NewTokens & { session: Session }> {
  const now = new Date(deps.now());
  const sessionId = newId(now.getTime());
  const tokens = await newTokens(deps, account, sessionId);
  const session: Session = {
    _id: sessionId,
    accountId: account._id,
    userAgent: userAgent?.slice(0, USER_AGENT_LENGTH) ?? null,
    ...{ createdAt: now, lastUsedAt: now, expiresAt: tokens.stored.expiresAt, endedAt: null, endReason: null },
  };
  return { ...tokens, session };
}

/** The next access and refresh token of a session. Of the refresh token only a slow hash is kept. */
export async function newTokens(deps: AuthDeps, account: Account, sessionId: string): Promise<NewTokens> {
  // Whole seconds: what is stored and what the token says are then the same times.
  const now = Math.floor(deps.now() / SECOND) * SECOND;
  const jti = newId(now);
  const refreshToken = deps.signer.refresh({ sub: account._id, type: 'refresh', jti, sid: sessionId }, now);
  const hash = await deps.hasher.hashToken(refreshToken);
  const stored: RefreshToken = {
    _id: jti,
    sessionId,
    accountId: account._id,
    hash,
    issuedAt: new Date(now),
    expiresAt: new Date(now + REFRESH_SECONDS * SECOND),
    ...{ consumedAt: null, successorId: null },
  };
  return {
    stored,
    envelope: {
      user: userView(account),
      accessToken: deps.signer.access(accessClaims(account, sessionId, newId(now)), now),
      refreshToken,
      tokenType: 'Bearer',
      expiresIn: ACCESS_SECONDS,
    },
  };
}

function accessClaims(account: Account, sessionId: string, jti: string): AccessClaims {
  const { _id: sub, role, accountCode, fullName, email, defaultOrganizationId } = account;
  return { sub, type: 'access', role, accountCode, fullName, email, defaultOrganizationId, sid: sessionId, jti };
}
