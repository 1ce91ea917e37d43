import type { Rejection } from '#shared/kernel/errors.ts';
import { SECOND } from '#shared/kernel/time.ts';
import type { Account } from './account.ts';
import type { RefreshToken, Session } from './session.ts';

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
 * Whether a refresh token may be exchanged at `now`. `reuse`: refuse it like any other and end its session. A used token is
 * judged as used before the account's state is: it is no credential, and its bearer learns nothing.
 */
export function judgeRefresh(
  { token, session, account }: PresentedRefresh,
  now: Date,
): 'rotate' | Rejection | { reuse: true } {
  const invalid: Rejection = { rejected: 'AUTH_INVALID_TOKEN' };
  if (token === null || session === null || account === null) return invalid;
  if (token.sessionId !== session._id || token.accountId !== account._id) return invalid;
  if (token.expiresAt.getTime() <= now.getTime() || session.endedAt !== null) return invalid;
  if (account.status === 'DELETED') return invalid;
  if (token.consumedAt !== null) {
    return now.getTime() - token.consumedAt.getTime() > REUSE_GRACE_MS ? { reuse: true } : invalid;
  }
  return account.status === 'SUSPENDED' ? { rejected: 'AUTH_ACCOUNT_DISABLED' } : 'rotate';
}
