import type { Call, Reply } from '#api/route.ts';
import {
  endOtherSessions,
  endSession,
  findRefresh,
  findToken,
  liveSessions,
  reportReuse,
  rotateToken,
} from '#infra/mongo/auth/sessions.ts';
import { FRONT_DOOR_BUDGET_MS } from '#infra/mongo/transaction.ts';
import { judgeRefresh } from '#shared/auth/session.ts';
import type { TokenRequest } from '#shared/generated/auth.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import { type AuthDeps, currentOf } from './deps.ts';
import { envelopeOf, newToken } from './new-session.ts';

const INVALID: Rejection = { rejected: 'AUTH_INVALID_TOKEN' };

/**
 * Exchanges a refresh token, once: signature, record and hash must fit, then one transaction consumes it and stores its
 * successor. A used one that comes back later than two tabs explain ends the session of whoever has it, owner or thief.
 */
export async function refresh(deps: AuthDeps, call: Call<TokenRequest>): Promise<Reply | Rejection> {
  const presented = presentedToken(call);
  if (isRejection(presented)) return presented;
  const { token: jwt } = presented;
  const claims = jwt === undefined ? null : deps.signer.readRefresh(jwt);
  if (jwt === undefined || claims === null) return INVALID;
  const of = { accountId: claims.sub, sessionId: claims.sid };
  // Its hash is made while the presented one is looked up and judged; the transaction then waits for nothing but MongoDB.
  const { refreshToken, stored: hashing } = newToken(deps, of);
  const found = await findRefresh(deps.mongo, claims);
  // A good signature is not enough: whoever had the key would have every session.
  if (found.kind === 'missing' || !(await deps.hasher.verifyToken(jwt, found.token.hash))) return INVALID;
  const verdict = judgeRefresh(found, new Date(deps.now()));
  switch (verdict.kind) {
    case 'refused':
      return verdict.rejection;
    case 'reused':
      await reportReuse(deps.mongo, verdict.token, deps.now());
      return INVALID;
    case 'rotate': {
      const successor = await hashing;
      const { token, account } = verdict;
      const rotation = { presented: token._id, sessionId: of.sessionId, successor, expiresAt: successor.expiresAt };
      const rotated = await rotateToken(deps.mongo, rotation, FRONT_DOOR_BUDGET_MS);
      if (rotated.kind === 'lost') return INVALID;
      return { status: 200, message: 'Refreshed', data: envelopeOf(deps, account, { ...of, refreshToken }) };
    }
  }
}

/**
 * Ends the session of a refresh token. One that is missing, invalid, used, revoked or not the stored one ends nothing, and a
 * used one raises no alarm: people log out with old tokens.
 */
export async function logout(deps: AuthDeps, call: Call<TokenRequest>): Promise<Reply | Rejection> {
  const presented = presentedToken(call);
  if (isRejection(presented)) return presented;
  return { status: 200, data: { revoked: presented.token !== undefined && (await revoke(deps, presented.token)) } };
}

async function revoke(deps: AuthDeps, presented: string): Promise<boolean> {
  const claims = deps.signer.readRefresh(presented);
  if (claims === null) return false;
  const token = await findToken(deps.mongo, claims);
  if (token === null || token.consumedAt !== null || token.expiresAt.getTime() <= deps.now()) return false;
  if (!(await deps.hasher.verifyToken(presented, token.hash))) return false;
  return endSession(deps.mongo, { accountId: token.accountId, sessionId: token.sessionId, reason: 'LOGOUT' });
}

/** The refresh token of a call, from its body or its Bearer header; undefined without one. Two different ones are a mistake. */
function presentedToken(call: Call<TokenRequest>): { token: string | undefined } | Rejection {
  const inBody = call.body.refreshToken ?? undefined;
  const { bearer } = call.identity;
  if (inBody !== undefined && bearer !== undefined && inBody !== bearer) {
    const message = 'differs from the token in the Authorization header';
    return { rejected: 'VALIDATION_FAILED', details: [{ path: '/refreshToken', message }] };
  }
  return { token: inBody ?? bearer };
}

/** Ends one session of the caller; somebody else's, an unknown and an ended one look alike. */
export async function endOneSession(deps: AuthDeps, call: Call): Promise<Reply | Rejection> {
  const current = await currentOf(deps, call);
  if (isRejection(current)) return current;
  const { sessionId = '' } = call.params;
  const ended = await endSession(deps.mongo, { accountId: current.account._id, sessionId, reason: 'ENDED' });
  return ended ? { status: 200, data: { revoked: true } } : { rejected: 'SESSION_NOT_FOUND' };
}

/** Ends every session of the caller but the one that asks. */
export async function endAllOtherSessions(deps: AuthDeps, call: Call): Promise<Reply | Rejection> {
  const current = await currentOf(deps, call);
  if (isRejection(current)) return current;
  const { account, session } = current;
  const others = { accountId: account._id, keep: session._id, reason: 'ENDED' } as const;
  return { status: 200, data: { revoked: await endOtherSessions(deps.mongo, others) } };
}

/** The caller's live sessions, the one used last first. */
export async function listSessions(deps: AuthDeps, call: Call): Promise<Reply | Rejection> {
  const current = await currentOf(deps, call);
  if (isRejection(current)) return current;
  const found = await liveSessions(deps.mongo, current.account._id, deps.now());
  const sessions = found.map((session) => ({
    id: session._id,
    current: session._id === current.session._id,
    createdAt: session.createdAt.toISOString(),
    lastUsedAt: session.lastUsedAt.toISOString(),
    expiresAt: session.expiresAt.toISOString(),
    userAgent: session.userAgent,
  }));
  return { status: 200, data: { sessions } };
}
