import type { AuthDeps } from '#api/auth/deps.ts';
import { envelopeOf, newToken } from '#api/auth/new-session.ts';
import { presentedToken } from '#api/auth/presented-token.ts';
import type { Call, Reply } from '#api/route.ts';
import { findRefresh, reportReuse, rotateToken } from '#infra/mongo/auth/sessions.ts';
import { FRONT_DOOR_BUDGET_MS } from '#infra/mongo/transaction.ts';
import { judgeRefresh } from '#shared/auth/session.ts';
import type { TokenRequest } from '#shared/generated/auth.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';

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
  const { token, account } = found;
  // A good signature is not enough: whoever had the key would have every session.
  if (token === null || !(await deps.hasher.verifyToken(jwt, token.hash))) return INVALID;
  const verdict = judgeRefresh(found, new Date(deps.now()));
  if (isRejection(verdict)) return verdict;
  if (verdict !== 'rotate') {
    await reportReuse(deps.mongo, token, deps.now());
    return INVALID;
  }
  if (account === null) return INVALID;
  const successor = await hashing;
  const rotation = { presented: token._id, sessionId: of.sessionId, successor, expiresAt: successor.expiresAt };
  const rotated = await rotateToken(deps.mongo, rotation, FRONT_DOOR_BUDGET_MS);
  if (rotated === 'lost') return INVALID;
  return { status: 200, message: 'Refreshed', data: envelopeOf(deps, account, { ...of, refreshToken }) };
}
