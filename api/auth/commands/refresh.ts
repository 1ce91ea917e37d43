import type { Account } from '../../../shared/auth/account.ts';
import { judgeRefresh } from '../../../shared/auth/refresh-rules.ts';
import type { RefreshToken } from '../../../shared/auth/session.ts';
import type { TokenRequest } from '../../../shared/generated/auth.ts';
import { findRefresh } from '../../../shared/infra/mongo/auth/find-refresh.ts';
import { reportReuse } from '../../../shared/infra/mongo/auth/report-reuse.ts';
import { rotateToken } from '../../../shared/infra/mongo/auth/rotate-token.ts';
import { FRONT_DOOR_BUDGET_MS } from '../../../shared/infra/mongo/transaction.ts';
import { isRejection, type Rejection } from '../../../shared/kernel/errors.ts';
import type { Call, Reply } from '../../route.ts';
import type { AuthDeps } from '../deps.ts';
import { newTokens } from '../new-session.ts';
import { presentedToken } from '../presented-token.ts';

const INVALID: Rejection = { rejected: 'AUTH_INVALID_TOKEN' };

/**
 * Exchanges a refresh token, once: signature, record and hash must fit, then one transaction consumes it and stores its
 * successor. A used one that comes back later than two tabs explain ends the session of whoever has it, owner or thief.
 */
export async function refresh(deps: AuthDeps, call: Call<TokenRequest>): Promise<Reply | Rejection> {
  const presented = presentedToken(call);
  if (isRejection(presented)) return presented;
  const claims = presented.token === undefined ? null : deps.signer.readRefresh(presented.token);
  if (presented.token === undefined || claims === null) return INVALID;
  const found = await findRefresh(deps.mongo, claims);
  // A good signature is not enough: whoever had the key would have every session.
  if (found.token === null || !(await deps.hasher.verifyToken(presented.token, found.token.hash))) return INVALID;
  const verdict = judgeRefresh(found, new Date(deps.now()));
  if (verdict === 'rotate') return found.account === null ? INVALID : rotate(deps, found.token, found.account);
  if (isRejection(verdict)) return verdict;
  await reportReuse(deps.mongo, found.token, deps.now());
  return INVALID;
}

async function rotate(deps: AuthDeps, token: RefreshToken, account: Account): Promise<Reply | Rejection> {
  const { stored: successor, envelope } = await newTokens(deps, account, token.sessionId);
  const { sessionId, _id: presented } = token;
  const { expiresAt } = successor;
  const rotated = await rotateToken(deps.mongo, { presented, sessionId, successor, expiresAt }, FRONT_DOOR_BUDGET_MS);
  return rotated === 'lost' ? INVALID : { status: 200, message: 'Refreshed', data: envelope };
}
