import { isUtf8 } from 'node:buffer';
import { type Account, userView } from '#shared/auth/account.ts';
import { DEVICE_HEADER, deviceClaims } from '#shared/auth/device.ts';
import {
  type AccessClaims,
  type PairTimes,
  pairTimes,
  type RefreshToken,
  type Session,
  USER_AGENT_LENGTH,
} from '#shared/auth/session.ts';
import type { SessionEnvelope } from '#shared/generated/auth.ts';
import { newId } from '#shared/kernel/ids.ts';
import { beginningOf } from '#shared/kernel/text.ts';
import { SECOND } from '#shared/kernel/time.ts';
import type { AuthDeps } from './deps.ts';

/** A session with its first tokens; neither is stored yet. `signedIn` is a part of the reply. */
export interface NewSession {
  session: Session;
  stored: RefreshToken;
  signedIn: SignedIn;
}

/** Returns a new session with its first refresh token and the reply's envelope. The caller stores session and token. */
export async function newSession(deps: AuthDeps, account: Account, userAgent: string | undefined): Promise<NewSession> {
  const now = new Date(deps.now());
  const of = { _id: newId(now.getTime()), accountId: account._id, createdAt: now };
  const made = newPair(deps, of, now);
  const token = await made.stored;
  const session: Session = {
    ...of,
    userAgent: userAgent === undefined ? null : beginningOf(asText(userAgent), USER_AGENT_LENGTH),
    lastUsedAt: now,
    expiresAt: token.expiresAt,
    endedAt: null,
    endReason: null,
  };
  return { session, stored: token, signedIn: signedInAs(deps, account, made) };
}

/** Returns a header that was sent in UTF-8 as text. Node decodes headers as Latin-1; a header that is not UTF-8 is returned unchanged. */
function asText(header: string): string {
  const bytes = Buffer.from(header, 'latin1');
  return isUtf8(bytes) ? bytes.toString('utf8') : header;
}

/** The next tokens of a session, created but not yet stored. */
export interface NewPair {
  sessionId: string;
  times: PairTimes;
  refreshToken: string;
  /** The row to store for the refresh token. It waits for a slow hash: await it before a transaction, never inside. */
  stored: Promise<RefreshToken>;
}

/** Creates the tokens of a session as of `now`, which must precede the session's latest end. Hashing begins at once. */
export function newPair(
  deps: Pick<AuthDeps, 'hasher' | 'signer' | 'settings'>,
  session: Pick<Session, '_id' | 'accountId' | 'createdAt'>,
  now: Date,
): NewPair {
  const times = pairTimes(session, now, deps.settings.sessionMaxMs);
  const { _id: sessionId, accountId } = session;
  const jti = newId(times.issuedAt);
  const refreshToken = deps.signer.refresh({
    sub: accountId,
    type: 'refresh',
    jti,
    sid: sessionId,
    iat: times.issuedAt / SECOND,
    exp: times.refreshExpiresAt / SECOND,
  });
  const stored = deps.hasher.hashToken(refreshToken).then((hash) => ({
    _id: jti,
    sessionId,
    accountId,
    hash,
    issuedAt: new Date(times.issuedAt),
    expiresAt: new Date(times.refreshExpiresAt),
    consumedAt: null,
    successorId: null,
  }));
  // A caller that does not need the token never awaits this: prevent an unhandled rejection.
  stored.catch(() => undefined);
  return { sessionId, times, refreshToken, stored };
}

/** The part of a reply that signs in. */
interface SignedIn {
  data: SessionEnvelope;
  headers: Record<string, string>;
}

/** Returns the user with a new access token and the refresh token, and the browser's device token. */
export function signedInAs(
  { signer }: Pick<AuthDeps, 'signer'>,
  account: Account,
  { sessionId, times, refreshToken }: NewPair,
): SignedIn {
  const iat = times.issuedAt / SECOND;
  const exp = times.accessExpiresAt / SECOND;
  const device = deviceClaims(account, { sessionId, now: times.issuedAt });
  return {
    data: {
      user: userView(account),
      accessToken: signer.access({ ...accessClaims(account, sessionId, newId(times.issuedAt)), iat, exp }),
      refreshToken,
      tokenType: 'Bearer',
      expiresIn: exp - iat,
    },
    headers: { [DEVICE_HEADER]: signer.device(device) },
  };
}

function accessClaims(account: Account, sessionId: string, jti: string): AccessClaims {
  const { _id: sub, role, accountCode, fullName, email, defaultOrganizationId } = account;
  return { sub, type: 'access', role, accountCode, fullName, email, defaultOrganizationId, sid: sessionId, jti };
}
