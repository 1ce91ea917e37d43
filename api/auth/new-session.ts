import { type Account, userView } from '#shared/auth/account.ts';
import {
  ACCESS_SECONDS,
  type AccessClaims,
  REFRESH_SECONDS,
  type RefreshToken,
  type Session,
  USER_AGENT_LENGTH,
} from '#shared/auth/session.ts';
import type { SessionEnvelope } from '#shared/generated/auth.ts';
import { newId } from '#shared/kernel/ids.ts';
import { SECOND } from '#shared/kernel/time.ts';
import type { AuthDeps } from './deps.ts';

/** A session with its first tokens; neither is stored yet. */
export interface NewSession {
  session: Session;
  stored: RefreshToken;
  envelope: SessionEnvelope;
}

export async function newSession(deps: AuthDeps, account: Account, userAgent: string | undefined): Promise<NewSession> {
  const now = new Date(deps.now());
  const sessionId = newId(now.getTime());
  const { refreshToken, stored } = newToken(deps, { accountId: account._id, sessionId });
  const token = await stored;
  const session: Session = {
    _id: sessionId,
    accountId: account._id,
    userAgent: userAgent?.slice(0, USER_AGENT_LENGTH) ?? null,
    createdAt: now,
    lastUsedAt: now,
    expiresAt: token.expiresAt,
    endedAt: null,
    endReason: null,
  };
  return { session, stored: token, envelope: envelopeOf(deps, account, { sessionId, refreshToken }) };
}

/** A refresh token that has been made and not yet stored: what the caller gets, and what is kept of it. */
export interface NewToken {
  refreshToken: string;
  /** Comes once its slow hash has been made, which begins at once. To be awaited before a transaction, never inside. */
  stored: Promise<RefreshToken>;
}

/** The next refresh token of a session. Of the token only a slow hash is kept. */
export function newToken(deps: AuthDeps, of: { accountId: string; sessionId: string }): NewToken {
  const now = wholeSeconds(deps);
  const jti = newId(now);
  const refreshToken = deps.signer.refresh({ sub: of.accountId, type: 'refresh', jti, sid: of.sessionId }, now);
  const stored = deps.hasher.hashToken(refreshToken).then((hash) => ({
    _id: jti,
    ...of,
    hash,
    issuedAt: new Date(now),
    expiresAt: new Date(now + REFRESH_SECONDS * SECOND),
    consumedAt: null,
    successorId: null,
  }));
  // Where it turns out that nobody needs it, nobody asks what became of it.
  stored.catch(() => undefined);
  return { refreshToken, stored };
}

/** What the caller is told: who it is, an access token of its own, and the refresh token. */
export function envelopeOf(
  deps: AuthDeps,
  account: Account,
  { sessionId, refreshToken }: { sessionId: string; refreshToken: string },
): SessionEnvelope {
  const now = wholeSeconds(deps);
  return {
    user: userView(account),
    accessToken: deps.signer.access(accessClaims(account, sessionId, newId(now)), now),
    refreshToken,
    tokenType: 'Bearer',
    expiresIn: ACCESS_SECONDS,
  };
}

/** Unix milliseconds of a whole second: what is stored and what the token says are then the same times. */
function wholeSeconds(deps: AuthDeps): number {
  return Math.floor(deps.now() / SECOND) * SECOND;
}

function accessClaims(account: Account, sessionId: string, jti: string): AccessClaims {
  const { _id: sub, role, accountCode, fullName, email, defaultOrganizationId } = account;
  return { sub, type: 'access', role, accountCode, fullName, email, defaultOrganizationId, sid: sessionId, jti };
}
