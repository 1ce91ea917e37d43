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
import { checkRefresh, type PresentedRefresh, sessionEndOf } from '#shared/auth/session.ts';
import type { TokenRequest } from '#shared/generated/auth.ts';
import { isRejection, type Rejection } from '#shared/kernel/errors.ts';
import type { RefreshOutcome } from './counts.ts';
import { type AuthDeps, currentOf } from './deps.ts';
import { newPair, signedInAs } from './new-session.ts';

const INVALID: Rejection = { rejected: 'AUTH_INVALID_TOKEN' };

/** Answers a refresh and counts its outcome. */
export async function refresh(deps: AuthDeps, call: Call<TokenRequest>): Promise<Reply | Rejection> {
  const { outcome, result } = await exchange(deps, call);
  deps.counts.refresh(outcome);
  return result;
}

interface Exchange {
  outcome: RefreshOutcome;
  result: Reply | Rejection;
}

const refusedAs = (outcome: RefreshOutcome, result: Rejection = INVALID): Exchange => ({ outcome, result });

/**
 * Exchanges a refresh token once. Its signature, stored row and hash must match; one transaction then consumes it and stores
 * its successor. If a used token returns later than two tabs would explain, the session ends, for owner and thief alike.
 */
async function exchange(deps: AuthDeps, call: Call<TokenRequest>): Promise<Exchange> {
  const jwt = presentedToken(call);
  const claims = jwt === undefined ? null : deps.signer.readRefresh(jwt);
  if (jwt === undefined || claims === null) return refusedAs('invalid');
  const found = await findRefresh(deps.mongo, claims);
  if (found.kind === 'missing') return refusedAs('invalid');
  const now = new Date(deps.now());
  const verdict = checkRefresh(found, now, deps.settings.sessionMaxMs);
  if (verdict.kind === 'rotate') return rotate(deps, verdict, { jwt, now });
  if (!(await deps.hasher.verifyToken(jwt, found.token.hash))) return refusedAs('invalid');
  if (verdict.kind === 'refused') return refusedAs(outcomeOf(found, verdict.rejection), verdict.rejection);
  const isEnded = await reportReuse(deps.mongo, verdict.token, deps.now());
  if (isEnded) deps.endStreams(verdict.token.accountId);
  return refusedAs(isEnded ? 'reuse' : 'invalid');
}

function outcomeOf({ token, session }: PresentedRefresh, { rejected }: Rejection): RefreshOutcome {
  if (rejected === 'AUTH_ACCOUNT_DISABLED') return 'disabled';
  return token.consumedAt !== null && session.endedAt === null ? 'repeated' : 'invalid';
}

/** Exchanges a refresh token that the rules accept. `jwt` must also match the stored hash: a valid signature is not enough. */
async function rotate(
  deps: AuthDeps,
  { token, session, account }: PresentedRefresh,
  { jwt, now }: { jwt: string; now: Date },
): Promise<Exchange> {
  // Hash the successor while the presented token is compared, so that the transaction waits only for MongoDB.
  const pair = newPair(deps, session, now);
  if (!(await deps.hasher.verifyToken(jwt, token.hash))) return refusedAs('invalid');
  const successor = await pair.stored;
  const rotation = { presented: token._id, sessionId: session._id, successor };
  const rotated = await rotateToken(deps.mongo, rotation, FRONT_DOOR_BUDGET_MS);
  if (rotated.kind === 'lost') return refusedAs('repeated');
  const result = { status: 200, message: 'Refreshed', ...signedInAs(deps, account, pair) };
  return { outcome: 'succeeded', result };
}

/**
 * Ends the session of a refresh token. A token that is missing, invalid, used, revoked or not the stored one ends nothing. A
 * used token is not reported as reuse here, because clients log out with old tokens.
 */
export async function logout(deps: AuthDeps, call: Call<TokenRequest>): Promise<Reply> {
  const presented = presentedToken(call);
  return { status: 200, data: { revoked: presented !== undefined && (await revoke(deps, presented)) } };
}

async function revoke(deps: AuthDeps, presented: string): Promise<boolean> {
  const claims = deps.signer.readRefresh(presented);
  if (claims === null) return false;
  const token = await findToken(deps.mongo, claims);
  if (token === null || token.consumedAt !== null || token.expiresAt.getTime() <= deps.now()) return false;
  if (!(await deps.hasher.verifyToken(presented, token.hash))) return false;
  const { accountId, sessionId } = token;
  const maxAgeMs = deps.settings.sessionMaxMs;
  const isEnded = await endSession(deps.mongo, { accountId, sessionId, reason: 'LOGOUT', maxAgeMs });
  if (isEnded) deps.endStreams(accountId);
  return isEnded;
}

/** Returns the refresh token of the body, otherwise that of the header. Clients add their access token to every call: it counts only alone. */
function presentedToken({ body, identity }: Call<TokenRequest>): string | undefined {
  return body.refreshToken || identity.bearer;
}

/** Ends one session of the caller. Answers SESSION_NOT_FOUND alike for another account's, an unknown and an ended session. */
export async function endOneSession(deps: AuthDeps, call: Call): Promise<Reply | Rejection> {
  const current = await currentOf(deps, call);
  if (isRejection(current)) return current;
  const { sessionId = '' } = call.params;
  const wanted = { accountId: current.account._id, sessionId, reason: 'ENDED' } as const;
  const ended = await endSession(deps.mongo, { ...wanted, maxAgeMs: deps.settings.sessionMaxMs });
  if (ended) deps.endStreams(wanted.accountId);
  return ended ? { status: 200, data: { revoked: true } } : { rejected: 'SESSION_NOT_FOUND' };
}

/** Ends every session of the caller except the one that makes this call. */
export async function endAllOtherSessions(deps: AuthDeps, call: Call): Promise<Reply | Rejection> {
  const current = await currentOf(deps, call);
  if (isRejection(current)) return current;
  const { account, session } = current;
  const others = { accountId: account._id, keep: session._id, reason: 'ENDED' } as const;
  const revoked = await endOtherSessions(deps.mongo, others);
  if (revoked > 0) deps.endStreams(account._id);
  return { status: 200, data: { revoked } };
}

/** Returns the caller's live sessions, most recently used first. */
export async function listSessions(deps: AuthDeps, call: Call): Promise<Reply | Rejection> {
  const current = await currentOf(deps, call);
  if (isRejection(current)) return current;
  const maxAgeMs = deps.settings.sessionMaxMs;
  const found = await liveSessions(deps.mongo, current.account._id, { now: deps.now(), maxAgeMs });
  const sessions = found.map((session) => ({
    id: session._id,
    current: session._id === current.session._id,
    createdAt: session.createdAt.toISOString(),
    lastUsedAt: session.lastUsedAt.toISOString(),
    expiresAt: sessionEndOf(session, maxAgeMs).toISOString(),
    userAgent: session.userAgent,
  }));
  return { status: 200, data: { sessions } };
}
