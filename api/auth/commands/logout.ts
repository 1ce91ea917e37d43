import type { AuthDeps } from '#api/auth/deps.ts';
import { presentedToken } from '#api/auth/presented-token.ts';
import type { Call, Reply } from '#api/route.ts';
import { endSession, findToken } from '#infra/mongo/auth/sessions.ts';
import type { TokenRequest } from '#shared/generated/auth.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';

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
